// All records of a request, across services, as a waterfall.
import { useSignal } from '@preact/signals'
import { useEffect } from 'preact/hooks'
import { post } from '../api/client'
import type { LogEntry } from '../api/schema'
import { oneLine } from '../format/log-text'
import { duration } from '../format/numbers'
import { statusOf, toneOf } from '../format/status'
import { quoteKey, quoteValue } from '../query/quote'
import { createResource } from '../state/resource'
import { Button } from '../ui/button'
import { LogText } from '../ui/log-text'
import { ProblemView, Skeleton } from '../ui/states'
import { colorOfName } from '../ui/theme'
import { timeOf, traceOf } from './record'
import { showRecord } from './record-link'
import { type TraceBar, type Waterfall, waterfallOf } from './trace'
import { setQueryNow } from './value-menu'

/** Requests take minutes at most; looking further would cost more than it finds. */
const reach = 15 * 60_000
const recordsMax = 500

export function TraceTab({ record }: { record: LogEntry }) {
  const trace = traceOf(record)
  const found = useSignal(createResource<LogEntry[]>()).value
  const term = trace ? `${quoteKey(trace.field)}:${quoteValue(trace.value)}` : ''

  function load() {
    const time = timeOf(record)
    const [from, to] = [time - reach, time + reach].map((one) => new Date(one).toISOString())
    found.ask(async (signal) => {
      const filter = { query: term, from: from ?? '', to: to ?? '' }
      const body = {
        filter,
        sort: 'timestamp' as const,
        page: { limit: recordsMax },
        weir: { details: true },
      }
      return (await post('/api/v2/logs/events/search', body, signal)).data
    })
  }
  useEffect(load, [term])

  const records = found.data.value
  if (!records) {
    const problem = found.problem.value
    return problem ? (
      <ProblemView problem={problem} again={load} />
    ) : (
      <Skeleton lines={8} label="Looking for the trace" />
    )
  }
  return (
    <>
      <div class="drawer-actions">
        <code class="grow trace-term">
          <LogText text={term} />
        </code>
        <Button small icon="search" onClick={() => setQueryNow(term)}>
          Show only these
        </Button>
      </div>
      <TraceView waterfall={waterfallOf(records)} current={record.id} />
    </>
  )
}

function TraceView({ waterfall, current }: { waterfall: Waterfall; current: string }) {
  const { bars, services, length } = waterfall
  return (
    <>
      <p class="quiet drawer-note">
        {bars.length} records of {services.length} {services.length === 1 ? 'service' : 'services'}{' '}
        in {duration(length * 1e6)}
      </p>
      <ol class="waterfall">
        {bars.map((bar) => (
          <Bar key={bar.record.id} bar={bar} total={length} current={bar.record.id === current} />
        ))}
      </ol>
    </>
  )
}

function Bar({ bar, total, current }: { bar: TraceBar; total: number; current: boolean }) {
  const { record, service } = bar
  const status = statusOf(record.attributes.status)
  const left = (bar.begin / total) * 100
  const width = (bar.length / total) * 100
  return (
    <li aria-current={current}>
      <button
        type="button"
        class={`waterfall-row tone-${toneOf(status)}`}
        onClick={() => showRecord(record)}
      >
        <span class="waterfall-service">
          <span class="swatch" style={{ background: `var(${colorOfName(service)})` }} />
          <span class="grow">
            <LogText text={service} />
          </span>
        </span>
        <span class="waterfall-lane">
          <span
            class={bar.length > 0 ? 'waterfall-bar' : 'waterfall-bar moment'}
            style={{
              left: `${left}%`,
              width: `${width}%`,
              background: `var(${colorOfName(service)})`,
            }}
          />
        </span>
        <span class="waterfall-length">{bar.length > 0 ? duration(bar.length * 1e6) : ''}</span>
        <span class="waterfall-text">
          <LogText text={oneLine(record.attributes.message ?? '', 160)} />
        </span>
      </button>
    </li>
  )
}
