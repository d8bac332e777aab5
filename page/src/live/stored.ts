// Finds the stored record of a live row. Its ID is the same before and after it is stored.
import { asProblem, get, isAbort } from '../api/client'
import type { LogEntry } from '../api/schema'

/** How often a row that is not stored yet is looked for, and the interval in milliseconds. */
const tries = 10
const tryEvery = 1_000

const notFound = 404

/** Waits until a row is stored; undefined if it is not after a while, or there is no store. */
export async function findStored(id: string, signal: AbortSignal): Promise<LogEntry | undefined> {
  for (let tried = 0; tried < tries && !signal.aborted; tried += 1) {
    try {
      return (await get('/weir/v1/context', { id, before: 0, after: 0 }, signal)).record
    } catch (error) {
      const { kind, document } = asProblem(error)
      if (isAbort(error) || (kind === 'refused' && document.status !== notFound)) return undefined
    }
    await new Promise((resolve) => window.setTimeout(resolve, tryEvery))
  }
  return undefined
}
