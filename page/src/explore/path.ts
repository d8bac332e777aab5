// What is known of one record at an output from the output's state: whether it can still wait there.
import type { OutputStatus, StatusDocument } from '../api/schema'

/** From its arrival until a record stands in the books of the outputs, at most, milliseconds. */
const settling = 1_000

/**
 * Whether a record that arrived then can no longer wait at an output: it was delivered, or discarded
 * and counted, unless a rule sent it elsewhere. False while that is not certain.
 */
export function hasPassed(
  { book }: OutputStatus,
  arrival: string | null | undefined,
  { time, uptime_seconds }: Pick<StatusDocument, 'time' | 'uptime_seconds'>,
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
