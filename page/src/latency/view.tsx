// The latency view: distribution and percentiles of a number, service time and queueing delay,
// outliers, and the records in any cell.
import { useSignal } from '@preact/signals'
import { useEffect } from 'preact/hooks'
import '../styles/latency.css'
import { facets, numberFields } from '../explore/facets'
import { NothingYet, nothingTaken, useFirstRecords } from '../explore/nothing-yet'
import { askAgain, question } from '../explore/question'
import { rowsProblem } from '../explore/records'
import { setQueryNow } from '../explore/value-menu'
import { exact, isTime, measured, percent, short, unitRatio } from '../format/numbers'
import { go } from '../state/location'
import { isOutdated, problemInstead } from '../state/resource'
import { ChartTable, Legend, TableButton } from '../ui/chart'
import { Select } from '../ui/select'
import { Empty, Partial, ProblemView, Skeleton } from '../ui/states'
import { CellRecords } from './cell-records'
import { by, metric, workers } from './choice'
import { Guide } from './guide'
import { type Cell, HeatMapView } from './heat-map'
import { LinesChart } from './lines-chart'
import {
  type HeatMap,
  heat,
  loadHeat,
  loadOutliers,
  loadPercentiles,
  loadSummary,
  percentiles,
  summary,
} from './load'
import { Outliers } from './outliers'
import { Parts } from './parts'

export function LatencyView() {
  const asked = question.value
  const name = metric.value
  const ready = facets.data.value !== undefined
  const group = by.value
  useFirstRecords(askAgain)
  useEffect(() => {
    if (!ready) return
    loadSummary(asked, name)
    loadHeat(asked, name)
    loadPercentiles(asked, name)
  }, [asked, name, ready])
  useEffect(() => {
    if (ready) loadOutliers(asked, name, group)
  }, [asked, name, group, ready])

  const unknown = ready ? undefined : (facets.problem.value ?? rowsProblem.value)
  if (unknown) return <ProblemView problem={unknown} again={askAgain} suggest={setQueryNow} />
  if (!ready) return <Skeleton lines={10} label="Searching for numeric fields" />
  if (numberFields.value.length === 0) return <NoNumbers />
  const problem = problemInstead(summary)
  if (problem) return <ProblemView problem={problem} again={askAgain} suggest={setQueryNow} />
  return (
    <div class="latency scroll">
      <div class="controls">
        <label class="labelled">
          Distribution of
          <Select
            value={name}
            options={numberFields.value.map((facet) => facet.name)}
            onChange={(next) => go({ metric: next }, { replace: true })}
          />
        </label>
        <SummaryLine />
        <Partial meta={summary.data.value?.meta} />
      </div>
      <HeatPanel />
      <div class="two-panels">
        <PercentilesPanel />
        <Outliers />
      </div>
      <Parts />
    </div>
  )
}

function NoNumbers() {
  if (nothingTaken.value) return <NothingYet again={askAgain} />
  return (
    <Empty title="No numbers in these records">
      <p>
        A distribution needs a numeric attribute, such as a duration. A rule with <code>parse</code>{' '}
        extracts attributes from access logs. Records of another query or range may have some.
      </p>
      <Guide />
    </Empty>
  )
}

function SummaryLine() {
  const found = summary.data.value
  if (!found || found.count === 0) return null
  const text = (value: number) => measured(value, found.unit)
  const { from, to } = question.value.span
  const rate = found.count / ((to - from) / 1_000)
  return (
    <span class="latency-summary">
      <Term name="records" value={short(found.count)} title={exact(found.count)} />
      <Term name="median" value={text(found.p50)} />
      <Term name="p90" value={text(found.p90)} />
      <Term name="p99" value={text(found.p99)} />
      <Term name="maximum" value={text(found.max)} />
      {isTime(found.unit) && (
        <Concurrency inProgress={rate * found.mean * unitRatio(found.unit, 's')} />
      )}
    </span>
  )
}

const littlesLaw =
  "Little's law: arrivals per second times the mean time is the mean number of requests in progress"

/** How many requests are processed at once on average, compared with how many can be. */
function Concurrency({ inProgress }: { inProgress: number }) {
  const count = Number(workers.value) || 0
  return (
    <>
      <Term name="in progress" value={short(inProgress)} title={littlesLaw} />
      <label class="labelled">
        of
        <input
          class="field small workers-field"
          type="number"
          min="1"
          aria-label="Number of workers"
          title="How many requests can be processed at once"
          value={count || ''}
          onChange={(event) => go({ workers: event.currentTarget.value }, { replace: true })}
        />
        workers
      </label>
      {count > 0 && <Term name="utilization" value={percent(inProgress / count)} />}
    </>
  )
}

function Term({ name, value, title }: { name: string; value: string; title?: string }) {
  return (
    <span title={title}>
      <span class="quiet">{name}</span> <strong>{value}</strong>
    </span>
  )
}

function HeatPanel() {
  const cell = useSignal<Cell | undefined>(undefined)
  const asTable = useSignal(false)
  const map = heat.data.value
  useEffect(() => {
    cell.value = undefined
  }, [map])
  return (
    <section class="panel" aria-label="Heat map" aria-busy={heat.loading.value}>
      <header>
        <h2>Distribution</h2>
        <span class="quiet">
          the stronger the color, the more records; click a cell to see them
        </span>
        <TableButton shown={asTable} />
      </header>
      <div class={`heat-box${isOutdated(heat) ? ' stale' : ''}`}>
        {!map && <Skeleton lines={10} label="Counting" />}
        {map && map.times.length === 0 && <Empty title={`No record here has ${metric.value}`} />}
        {map && map.times.length > 0 && asTable.value && <HeatTable map={map} />}
        {map && map.times.length > 0 && !asTable.value && (
          <HeatMapView
            map={map}
            selected={cell.value}
            onSelect={(next) => {
              cell.value = next
            }}
          />
        )}
      </div>
      {map && cell.value && !asTable.value && (
        <CellRecords map={map} cell={cell.value} metric={metric.value} />
      )}
    </section>
  )
}

/** Counts by time and value; values that no record has are left out. */
function HeatTable({ map }: { map: HeatMap }) {
  const series = map.steps.flatMap((step, at) => {
    const values = map.counts[at] ?? []
    const label = `${measured(step.low, map.unit)} to ${measured(step.high, map.unit)}`
    return values.some((count) => count > 0) ? [{ label, color: '', values }] : []
  })
  return (
    <ChartTable label="Counts by time and value" times={map.times} series={series} format={exact} />
  )
}

function PercentilesPanel() {
  const asTable = useSignal(false)
  const found = percentiles.data.value
  return (
    <section class="panel" aria-label="Percentiles over time">
      <header>
        <h2>Percentiles over time</h2>
        {found && <Legend series={found.series} />}
        <TableButton shown={asTable} />
      </header>
      <div class={`panel-body${isOutdated(percentiles) ? ' stale' : ''}`}>
        {found ? (
          <LinesChart
            label={`Percentiles of ${metric.value} over time`}
            kind="lines"
            found={found}
            asTable={asTable.value}
          />
        ) : (
          <Skeleton lines={8} label="Computing percentiles" />
        )}
      </div>
    </section>
  )
}
