// Links to a record in Explore, among the records just before and after it.
import type { LogEntry } from '../api/schema'
import { quoteValue } from '../query/quote'
import { follow, go, link, screen } from '../state/location'
import { fixed } from '../time/range'
import { timeOf } from './record'

/** On either side of it, milliseconds. */
const around = 30_000

/** The records of its service around it; with an id, it is opened as well. */
export function recordLink(record: LogEntry, id = ''): string {
  const time = timeOf(record)
  const { service } = record.attributes
  const range = fixed({ from: time - around, to: time + around })
  return link({ ...range, q: service ? `service:${quoteValue(service)}` : '', row: id }, 'explore')
}

/** Opens a stored record in Explore. */
export function showRecord(record: LogEntry): void {
  if (screen.peek() === 'explore') go({ row: record.id })
  else follow(recordLink(record, record.id))
}
