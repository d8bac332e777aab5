// Explore: the query, the histogram and the facets, and below them records, patterns, groups or
// latency.
import { effect, useSignal } from '@preact/signals'
import { useEffect, useMemo } from 'preact/hooks'
import { reach } from '../api/client'
import { bytes, exact, short } from '../format/numbers'
import { QueryBar } from '../query/bar'
import { go, parameter } from '../state/location'
import { facetsShown, histogramShown } from '../state/settings'
import { remember } from '../state/views'
import { refresh, TimePicker } from '../time/picker'
import { Button, IconButton } from '../ui/button'
import { lazy, Suspense } from '../ui/lazy'
import { announce } from '../ui/notify'
import { Skeleton, sentence } from '../ui/states'
import { Tabs } from '../ui/tabs'
import { Drawer } from './drawer'
import { openExportMenu } from './export-menu'
import { FacetPanel } from './facet-panel'
import { loadFacets } from './facets'
import { bar, loadHistogram, split } from './histogram'
import { HistogramPanel } from './histogram-panel'
import { matched } from './matched'
import { askAgain, query, question, setQuery } from './question'
import { loadRecords, rows, rowsLoading, rowsMeta, rowsProblem, rowsTook, sort } from './records'
import { RecordsView } from './records-view'
import { isReading } from './selection'
import { RecordTools } from './tools'
import { ViewsPopover } from './views-popover'

const Patterns = lazy(() => import('./patterns').then((part) => part.Patterns))
const GroupsView = lazy(() => import('./groups-view').then((part) => part.GroupsView))
const LatencyView = lazy(() => import('../latency/view').then((part) => part.LatencyView))

const view = parameter('view')

export function Explore() {
  useQuestions()
  return (
    <div class="explore">
      <div class="ask">
        <QueryBar
          query={query.value}
          problem={rowsProblem.value}
          onRun={setQuery}
          action="Search"
          settled={rowsMeta.value !== undefined || rowsProblem.value !== undefined}
        />
        <div class="ask-side">
          <TimePicker />
          <ViewsPopover />
          <IconButton
            icon="download"
            label="Export and share"
            onClick={(event) => openExportMenu(event.currentTarget as HTMLElement)}
          />
        </div>
      </div>
      <Results />
    </div>
  )
}

/** Sends requests at once, so that weir responds while the page is first drawn. */
function useQuestions() {
  const stop = useMemo(keepAsking, [])
  useEffect(() => stop, [stop])
}

/** Sends requests when the question changes: first for rows and the histogram, then for facets. */
function keepAsking(): () => void {
  const stopRecords = effect(() => {
    const asked = question.value
    remember(asked.query)
    loadRecords(asked, sort.value)
  })
  const stopFigures = effect(() => {
    const asked = question.value
    const wanted = facetsShown.value || view.value !== ''
    const points = Math.max(30, Math.round(window.innerWidth / 14))
    const bars = histogramShown.value
      ? loadHistogram(asked, points, split.value, bar.value)
      : Promise.resolve()
    bars.then(async () => {
      if (question.peek() !== asked) return
      // While the number of records is unknown, only open facets are counted.
      if (wanted) await loadFacets(asked, matched.peek() ?? Number.POSITIVE_INFINITY)
      if (question.peek() === asked) announce(`${countText()} records match`)
    })
  })
  const stopWaiting = effect(() => {
    const back = reach.value === 'reached'
    if (back && rowsProblem.peek()?.kind === 'unreachable') askAgain()
  })
  return () => {
    stopRecords()
    stopFigures()
    stopWaiting()
  }
}

function Results() {
  return (
    <div class={`results${facetsShown.value ? ' with-facets' : ''}`}>
      {facetsShown.value && (
        <div class="facets-box">
          <FacetsHead />
          <FacetPanel />
        </div>
      )}
      <div class="answers">
        <HistogramPanel />
        <Toolbar />
        <Unanswered />
        <Warnings />
        <Part />
      </div>
      <Drawer />
    </div>
  )
}

/** Where facets cover the records: how many match, and the way to them. */
function FacetsHead() {
  const count = matched.value
  const found = count === undefined ? 'the records' : `${short(count)} records`
  return (
    <div class="facets-close">
      <Button
        small
        kind="primary"
        onClick={() => {
          facetsShown.value = false
        }}
      >
        Show {found}
      </Button>
    </div>
  )
}

const tabs = [
  { id: 'records', label: 'Records' },
  { id: 'patterns', label: 'Patterns' },
  { id: 'groups', label: 'Groups' },
  { id: 'latency', label: 'Latency' },
]

function currentView(): string {
  return tabs.some((tab) => tab.id === view.value) ? view.value : 'records'
}

function Toolbar() {
  return (
    <div class="toolbar">
      <IconButton
        small
        icon="filter"
        label="Show the fields"
        pressed={facetsShown.value}
        onClick={() => {
          facetsShown.value = !facetsShown.value
        }}
      />
      <Tabs
        label="View"
        tabs={tabs}
        current={currentView()}
        onChange={(next) => go({ view: next === 'records' ? null : next })}
      />
      <Summary />
      <span class="grow" />
      {currentView() === 'records' && <RecordTools />}
    </div>
  )
}

/** The number of records, or of those that are loaded if there are more. */
function countText(): string {
  return matched.value === undefined ? `${exact(rows.value.length)}+` : exact(matched.value)
}

function Summary() {
  const meta = rowsMeta.value
  if (!meta || rowsProblem.value) return null
  const scanned = meta.weir.bytes > 0 ? `, ${bytes(meta.weir.bytes)} read` : ''
  const count = matched.value
  return (
    <span class="summary quiet" aria-busy={rowsLoading.value}>
      <strong title={countText()}>{count === undefined ? countText() : short(count)}</strong>{' '}
      <span class="word">{count === 1 ? 'record' : 'records'}</span>
      <span class="wide" title={`weir took ${meta.elapsed} ms${scanned}`}>
        {' '}
        in {Math.round(rowsTook.value)} ms
      </span>
      {refresh.value !== 'off' && isReading.value && (
        <span class="wide" title="Nothing moves while a record is open or the list is scrolled">
          {' '}
          · refresh waits
        </span>
      )}
    </span>
  )
}

/** Says that the rows on the screen are the results of the previous query. */
function Unanswered() {
  const problem = rowsProblem.value
  if (!problem || problem.kind === 'refused' || rows.value.length === 0) return null
  return (
    <div class="notice bad" role="alert">
      <span class="grow">
        These are the previous results: the last query failed
        {problem.kind === 'unreachable' ? '' : ` (${problem.document.title})`}.
      </span>
      <Button small icon="refresh" onClick={askAgain}>
        Run again
      </Button>
    </div>
  )
}

/** Warnings about the result; if it is incomplete, that comes first. */
function Warnings() {
  const dismissed = useSignal('')
  const warnings = rowsMeta.value?.warnings ?? []
  const shown = warnings.filter((warning) => warning.code !== 'ignored')
  const key = shown.map((warning) => warning.detail).join()
  if (shown.length === 0 || dismissed.value === key || rowsProblem.value) return null
  const partial = rowsMeta.value?.weir.partial
  // This is not a problem: the rest will be available soon.
  const waits = shown.every((warning) => warning.code === 'catching_up')
  return (
    <div class={`notice${partial && !waits ? ' bad' : ''}`} role="status">
      <span class="grow">
        {partial && <strong>This result is incomplete. </strong>}
        {shown.map((warning) => sentence(warning.detail || warning.title)).join(' ')}
      </span>
      {partial && (
        <Button small icon="refresh" onClick={askAgain}>
          Run again
        </Button>
      )}
      <IconButton
        small
        icon="close"
        label="Dismiss"
        onClick={() => {
          dismissed.value = key
        }}
      />
    </div>
  )
}

function Part() {
  const waiting = <Skeleton lines={10} label="Loading" />
  switch (currentView()) {
    case 'patterns':
      return <Suspense fallback={waiting} part={Patterns} />
    case 'groups':
      return <Suspense fallback={waiting} part={GroupsView} />
    case 'latency':
      return <Suspense fallback={waiting} part={LatencyView} />
    default:
      return <RecordsView />
  }
}
