// The records in a cell of the heat map.
import { useSignal } from '@preact/signals'
import { useEffect } from 'preact/hooks'
import { post } from '../api/client'
import type { LogEntry } from '../api/schema'
import { filterOf, question } from '../explore/question'
import { fieldOf, textOf, timeOf } from '../explore/record'
import { oneLine } from '../format/log-text'
import { measured, written } from '../format/numbers'
import { statusOf, toneOf } from '../format/status'
import { brief, clock } from '../format/times'
import { quoteKey } from '../query/quote'
import { withTerm } from '../query/terms'
import { go } from '../state/location'
import { createResource } from '../state/resource'
import { fixed } from '../time/range'
import { Button } from '../ui/button'
import { LogText } from '../ui/log-text'
import { Skeleton } from '../ui/states'
import type { Cell } from './heat-map'
import type { HeatMap } from './load'

const listed = 50

export function CellRecords({ map, cell, metric }: { map: HeatMap; cell: Cell; metric: string }) {
  const found = useSignal(createResource<LogEntry[]>()).value
  const step = map.steps[cell.row] ?? { low: 0, high: 0 }
  const from = map.times[cell.column] ?? 0
  const span = { from, to: from + map.step }
  const asked = question.value
  const range = `[${written(step.low, map.unit)} TO ${written(step.high, map.unit)}}`
  const query = withTerm(asked.query, `${quoteKey(metric)}:${range}`)

  useEffect(() => {
    found.ask(async (signal) => {
      const filter = filterOf({ ...asked, query, span })
      const body = { filter, page: { limit: listed }, weir: { calculated_fields: asked.measures } }
      return (await post('/api/v2/logs/events/search', body, signal)).data
    })
  }, [query, from])

  return (
    <div class="cell-records">
      <div class="row">
        <strong class="grow">
          {measured(step.low, map.unit)} to {measured(step.high, map.unit)}, {brief(span.from)} –{' '}
          {brief(span.to)}
        </strong>
        <Button small icon="search" onClick={() => go({ q: query, ...fixed(span), view: null })}>
          Show all in Records
        </Button>
      </div>
      {found.data.value ? (
        <List records={found.data.value} metric={metric} unit={map.unit} />
      ) : (
        <Skeleton lines={4} label="Loading records" />
      )}
    </div>
  )
}

function List({
  records,
  metric,
  unit,
}: {
  records: LogEntry[]
  metric: string
  unit: string | undefined
}) {
  if (records.length === 0) return <p class="quiet">No records in this cell.</p>
  return (
    <ol class="record-lines">
      {records.map((record) => (
        <li
          key={record.id}
          class={`record-line cell-record tone-${toneOf(statusOf(record.attributes.status))}`}
        >
          <span class="number">{measured(Number(textOf(fieldOf(record, metric))), unit)}</span>
          <span class="time">{clock(timeOf(record))}</span>
          <span class="quiet">
            <LogText text={record.attributes.service ?? ''} />
          </span>
          <button type="button" class="record-line-text" onClick={() => go({ row: record.id })}>
            <LogText text={oneLine(record.attributes.message ?? '', 300)} />
          </button>
        </li>
      ))}
    </ol>
  )
}
