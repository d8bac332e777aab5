// The histogram above the records: a bar for each interval, by severity, with a brush for zooming.
import { useSignal } from '@preact/signals'
import { useEffect } from 'preact/hooks'
import { duration, exact, short } from '../format/numbers'
import { go } from '../state/location'
import { histogramShown } from '../state/settings'
import { Chart, Legend, loadPlotting, TableButton } from '../ui/chart'
import { Select } from '../ui/select'
import { Partial } from '../ui/states'
import { facets } from './facets'
import { bar, barsFor, histogram, split } from './histogram'
import { question, setSpan } from './question'

export const histogramHeight = 112

export function HistogramPanel() {
  const asTable = useSignal(false)
  useEffect(loadPlotting, [])
  if (!histogramShown.value) return null
  const data = histogram.data.value
  return (
    <section class="histogram" aria-label="Records over time" aria-busy={histogram.loading.value}>
      <div class="histogram-head">
        <BarChoice />
        <Legend series={data?.series ?? []} />
        <Partial meta={data?.meta} />
        <span class="grow" />
        <span class="quiet wide">drag to zoom</span>
        <SplitChoice />
        <TableButton shown={asTable} />
      </div>
      <Body asTable={asTable.value} />
    </section>
  )
}

/** The interval of a bar, and the other possible ones. */
function BarChoice() {
  const data = histogram.data.value
  if (!data) return <span class="quiet">{histogram.problem.value ? '' : 'counting…'}</span>
  const choices = barsFor(data.span)
  const length = duration(data.step * 1e6)
  return (
    <label class="labelled quiet">
      each bar
      <Select
        name="Length of a bar"
        value={choices.includes(bar.value) ? bar.value : ''}
        options={['', ...choices]}
        label={(one) => (one === '' ? (bar.value ? 'automatic' : `auto: ${length}`) : one)}
        onChange={(next) => go({ bar: next }, { replace: true })}
      />
    </label>
  )
}

function SplitChoice() {
  const names = (facets.data.value?.facets ?? []).map((facet) => facet.name)
  return (
    <label class="labelled wide">
      by
      <Select
        value={split.value}
        options={['status', ...names.filter((name) => name !== 'status')]}
        onChange={(next) => go({ split: next === 'status' ? null : next }, { replace: true })}
      />
    </label>
  )
}

function Body({ asTable }: { asTable: boolean }) {
  const data = histogram.data.value
  const problem = histogram.problem.value
  if (!data) {
    const text = problem ? 'No histogram: the query failed.' : ''
    return (
      <div class="histogram-empty quiet" style={{ height: `${histogramHeight}px` }}>
        {text}
      </div>
    )
  }
  return (
    <div class={histogram.loading.value || problem ? 'stale' : ''}>
      <Chart
        label={`${exact(data.matched)} records over time`}
        kind="bars"
        height={histogramHeight}
        times={data.times}
        series={data.series}
        step={data.step}
        span={data.span ?? question.value.span}
        format={short}
        asTable={asTable}
        onBrush={setSpan}
      />
    </div>
  )
}
