// What is known of one record at an output from the output's state: whether it can still wait there.

import type { OutputStatus } from '../api/schema'
import type { Status } from '../state/status'

/** From its arrival until a record stands in the books of the outputs, at most, milliseconds. */
const settling = 1_000

/**
 * Whether a record that arrived then can no longer wait at an output: it was delivered, or discarded
 * and counted, unless a rule sent it elsewhere. False while that is not certain.
 */
export function hasPassed(
  { book }: OutputStatus,
  arrival: string | null | undefined,
  { time, uptime_seconds }: Pick<Status, 'time' | 'uptime_seconds'>,
): boolean {
  const [arrived, now] = [Date.parse(arrival ?? ''), Date.parse(time)]
  if (Number.isNaN(arrived) || Number.isNaN(now) || arrived + settling > now) return false
  // What the store has taken can be searched, though it is not acknowledged yet.
  const waiting = book.type === 'store' ? book.in_flight - book.taken : book.in_flight
  if (waiting <= 0) return true
  // What an earlier run has left counts its age from the start.
  const isOfThisRun = arrived > now - uptime_seconds * 1_000
  return isOfThisRun && book.lag_seconds > 0 && arrived + settling < now - book.lag_seconds * 1_000
}

/** What is known of a record at an output. */
export type Outcome = 'waiting' | 'not sent' | 'delivered' | 'settled'

/**
 * Certain where the books leave no other way: every record was sent to the output and none of them was
 * discarded, or none was sent to it at all. Otherwise it was settled, one way or another.
 */
export function outcomeAt(
  output: OutputStatus,
  arrival: string | null | undefined,
  document: Status,
): Outcome {
  const { routed, discarded, dead_lettered, unbound } = output.book.book
  if (!hasPassed(output, arrival, document)) return 'waiting'
  if (routed === 0) return 'not sent'
  const records = document.sources.reduce((sum, { book }) => sum + book.book.records, 0)
  const others = Object.values(discarded).reduce((sum, count) => sum + count, 0)
  const isCertain = routed === records && others + dead_lettered + (unbound ?? 0) === 0
  return isCertain ? 'delivered' : 'settled'
}
