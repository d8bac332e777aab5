// Figures of drains, from their books: rates between two readings, losses, and states in words.
import type { DrainEntry, DrainsDocument } from '../api/schema'
import { seconds } from '../format/numbers'
import { lossOf, type State } from '../pipeline/figures'

/** Records per second that each drain delivered between two readings; empty without two of them. */
export function ratesOf(
  before: DrainsDocument | undefined,
  after: DrainsDocument,
): Map<string, number> {
  const rates = new Map<string, number>()
  const length = before ? (after.time_unix_ns - before.time_unix_ns) / 1e9 : 0
  if (!before || length <= 0) return rates
  const known = new Map(before.drains.map((drain) => [drain.id, drain.book.delivered]))
  for (const { id, book } of after.drains) {
    const first = known.get(id)
    // After a restart counters begin anew.
    if (first !== undefined && first <= book.delivered) {
      rates.set(id, (book.delivered - first) / length)
    }
  }
  return rates
}

/** How old the oldest waiting record of a drain is, if any waits. */
export function lagText({ lag_seconds, book }: DrainEntry): string {
  if (lag_seconds == null) return book.waiting > 0 ? 'oldest not yet known' : 'not yet known'
  return book.waiting > 0 && lag_seconds >= 1 ? `oldest ${seconds(Math.round(lag_seconds))}` : ''
}

export interface DrainTotals {
  delivered: number
  waiting: number
  lost: number
  troubled: number
  balanced: boolean
}

export function drainTotals({ drains, balanced }: DrainsDocument): DrainTotals {
  const add = (value: (drain: DrainEntry) => number) =>
    drains.reduce((total, drain) => total + value(drain), 0)
  return {
    delivered: add((drain) => drain.book.delivered),
    waiting: add((drain) => drain.book.waiting),
    lost: add((drain) => lossOf(drain.book.discarded).lost),
    troubled: drains.filter((drain) => stateOf(drain).tone === 'bad').length,
    balanced,
  }
}

/** `rate` is what it has delivered a second since the last look: between two sends none waits. */
export function stateOf(drain: DrainEntry, rate = 0): State {
  switch (drain.state) {
    case 'idle':
      return { tone: 'good', text: rate > 0 ? 'sending' : 'idle' }
    case 'sending':
      return { tone: 'good', text: 'sending' }
    case 'lagging':
      return { tone: 'caution', text: 'lagging: sending from disk' }
    case 'failing':
      return { tone: 'bad', text: `failing for ${seconds(Math.round(drain.failing_seconds))}` }
    case 'paused':
      return { tone: '', text: 'paused' }
    default:
      return { tone: '', text: drain.state }
  }
}

/** Failing drains first, then by waiting records, then by whose records they are. */
export function inOrder(drains: DrainEntry[]): DrainEntry[] {
  const rank = { bad: 0, caution: 1, '': 2, good: 3 }
  return drains.toSorted(
    (a, b) =>
      rank[stateOf(a).tone] - rank[stateOf(b).tone] ||
      b.book.waiting - a.book.waiting ||
      a.selects.localeCompare(b.selects) ||
      a.url.localeCompare(b.url),
  )
}

export function matches(drain: DrainEntry, text: string): boolean {
  const wanted = text.trim().toLowerCase()
  const all = `${drain.selects} ${drain.url} ${drain.state} ${drain.origin} ${drain.error ?? ''}`
  return all.toLowerCase().includes(wanted)
}
