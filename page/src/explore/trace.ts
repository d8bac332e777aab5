// The records of one trace as a waterfall: when each was at work, and who waited for whom.
import type { LogEntry } from '../api/schema'
import { fieldOf, textOf, timeOf } from './record'

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

const durationFields: Array<[string, number]> = [
  ['@duration', 1e-6],
  ['@duration_ms', 1],
  ['@request_time_ms', 1],
  ['@request_time', 1_000],
]

function durationOf(record: LogEntry): number {
  for (const [field, scale] of durationFields) {
    const value = Number(textOf(fieldOf(record, field)) || Number.NaN)
    if (Number.isFinite(value) && value >= 0) return value * scale
  }
  return 0
}
