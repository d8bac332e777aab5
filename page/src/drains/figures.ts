// Figures of drains from their books: rates between two looks, losses, states in words.
import type { DrainEntry, DrainsDocument } from '../api/schema'
import { seconds } from '../format/numbers'
import { lossOf, type State } from '../pipeline/figures'

/** A document and when it was read, milliseconds by weir's clock. */
export interface Look {
  at: number
  document: DrainsDocument
}

/** What drains delivered a second between two looks, by id; empty without two of them. */
export function ratesOf(before: Look | undefined, after: Look): Map<string, number> {
  const rates = new Map<string, number>()
  const length = before ? (after.at - before.at) / 1_000 : 0
  if (!before || length <= 0) return rates
  const known = new Map(before.document.drains.map((drain) => [drain.id, drain.book.delivered]))
  for (const { id, book } of after.document.drains) {
    const first = known.get(id)
    // After a restart counters begin anew.
    if (first !== undefined && first <= book.delivered) {
      rates.set(id, (book.delivered - first) / length)
    }
  }
  return rates
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

export function stateOf(drain: DrainEntry): State {
  switch (drain.state) {
    case 'idle':
      return { tone: 'good', text: 'idle' }
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

/** Trouble first, then what waits most, then by whose records they are. */
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
