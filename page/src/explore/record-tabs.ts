// The tabs that show a record, stored or live.
import type { LogEntry } from '../api/schema'
import { traceOf } from './record'

const tabs = [
  { id: 'fields', label: 'Fields' },
  { id: 'json', label: 'JSON' },
  { id: 'context', label: 'Context' },
  { id: 'trace', label: 'Trace' },
  { id: 'path', label: 'Path' },
]

/** A record without a trace has no tab for it. */
export function tabsOf(record: LogEntry) {
  return tabs.filter((one) => one.id !== 'trace' || traceOf(record))
}
