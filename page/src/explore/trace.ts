// The records of a trace as a waterfall: when each service was working, and which one waited.
import type { LogEntry } from '../api/schema'
import { isTime, unitRatio } from '../format/numbers'
import { isTotal } from '../latency/pair'
import { unitOf } from './facets'
import { flatten, textOf, timeOf } from './record'

export interface TraceBar {
  record: LogEntry
  service: string
  /** Milliseconds from the beginning of the trace. */
  begin: number
  length: number
}

export interface Waterfall {
  bars: TraceBar[]
  begin: number
  length: number
  services: string[]
}

/** A record is written when its work ends, so its bar ends at its time. */
export function waterfallOf(records: LogEntry[]): Waterfall {
  const spans = records.map((record) => {
    const length = durationOf(record)
    return { record, end: timeOf(record), length }
  })
  const begin = Math.min(...spans.map((span) => span.end - span.length))
  const end = Math.max(...spans.map((span) => span.end), begin + 1)
  const bars = spans
    .map(({ record, end: at, length }) => ({
      record,
      service: record.attributes.service ?? 'no service',
      begin: at - length - begin,
      length,
    }))
    .sort((a, b) => a.begin - b.begin || b.length - a.length)
  const services = [...new Set(bars.map((bar) => bar.service))]
  return { bars, begin, length: end - begin, services }
}

/** Names of durations that do not end with their unit. */
const knownUnits: Record<string, string> = { '@request_time': 's' }

/** The duration in a record, milliseconds; 0 if it has none. */
function durationOf(record: LogEntry): number {
  for (const { name, value } of flatten(record.attributes.attributes)) {
    const unit = isTotal(name) ? (knownUnits[name] ?? unitOf(name)) : undefined
    const length = Number(textOf(value) || Number.NaN) * unitRatio(unit, 'ms')
    if (isTime(unit) && Number.isFinite(length) && length >= 0) return length
  }
  return 0
}
