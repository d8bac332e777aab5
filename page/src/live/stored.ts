// The stored record that a row of a live tail is: the same place in the same stream. A row has no id
// of the store, because it is shown before it is stored.
import { asProblem, isAbort, post } from '../api/client'
import type { LogEntry } from '../api/schema'
import { timeOf } from '../explore/record'
import { quoteValue } from '../query/quote'

/** How often a row is looked for that is not stored yet, and how long after the one before, milliseconds. */
const tries = 10
const tryEvery = 1_000
/** Records that can have the same millisecond, service and source as a row; one answer has no more. */
const recordsMax = 1_000

/** Waits until a row is stored; undefined if it is not after a while, or there is no store. */
export async function findStored(
  row: LogEntry,
  signal: AbortSignal,
): Promise<LogEntry | undefined> {
  for (let tried = 0; tried < tries && !signal.aborted; tried += 1) {
    try {
      const found = (await recordsAround(row, signal)).find((one) => isSame(one, row))
      if (found) return found
    } catch (error) {
      if (isAbort(error) || asProblem(error).kind === 'refused') return undefined
    }
    await new Promise((resolve) => window.setTimeout(resolve, tryEvery))
  }
  return undefined
}

async function recordsAround(row: LogEntry, signal: AbortSignal): Promise<LogEntry[]> {
  const body = {
    filter: questionOf(row),
    sort: 'timestamp' as const,
    page: { limit: recordsMax },
    weir: { details: true },
  }
  return (await post('/api/v2/logs/events/search', body, signal)).data
}

/** As narrow as it can be: the millisecond of the row, its source and its service. */
export function questionOf(row: LogEntry): { query: string; from: string; to: string } {
  const time = Math.floor(timeOf(row))
  const terms = [
    row.weir?.source && `source:${quoteValue(row.weir.source)}`,
    row.attributes.service && `service:${quoteValue(row.attributes.service)}`,
  ]
  return {
    query: terms.filter(Boolean).join(' '),
    from: new Date(time).toISOString(),
    to: new Date(time + 1).toISOString(),
  }
}

/** Several records can come from one place, such as a batch: they have different messages. */
export function isSame(one: LogEntry, other: LogEntry): boolean {
  const [a, b] = [one.weir, other.weir]
  if (!a || !b?.stream) return false
  return (
    a.stream === b.stream &&
    a.position === b.position &&
    Date.parse(a.timestamp) === Date.parse(b.timestamp) &&
    (one.attributes.message ?? '') === (other.attributes.message ?? '')
  )
}
