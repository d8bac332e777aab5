// The share of records that has arrived, from the books alone: they begin with the data directory
// and continue across restarts.

import { percent, short } from '../format/numbers'
import { lossOf } from '../pipeline/figures'
import type { Status } from '../state/status'

/** What became of the records of a source or an output. */
export interface Delivery {
  name: string
  kind: 'source' | 'output'
  received: number
  /** Accepted by the destination; for a source: handed on. */
  delivered: number
  lost: number
  /** Discarded because the configuration says so; these count neither way. */
  chosen: number
  /** Not yet decided. */
  waiting: number
  /** Of these: in the store, which has not acknowledged them yet. */
  searchable: number
  late: number
  balanced: boolean
}

export function deliveriesOf(document: Status): Delivery[] {
  const sources = document.sources.map(({ book, lag_seconds }): Delivery => {
    const { lost, chosen } = lossOf(book.book.discarded)
    return {
      name: book.name,
      kind: 'source',
      received: book.book.lines,
      delivered: book.book.records + book.book.joined,
      lost,
      chosen,
      waiting: 0,
      searchable: 0,
      late: lag_seconds,
      balanced: book.unaccounted_lines === 0,
    }
  })
  const outputs = document.outputs.map(({ book }): Delivery => {
    const { lost, chosen } = lossOf(book.book.discarded)
    return {
      name: book.name,
      kind: 'output',
      received: book.book.routed,
      delivered: book.book.delivered + (book.book.moved ?? 0) + (book.book.unbound ?? 0),
      lost: lost + book.book.dead_lettered,
      chosen,
      waiting: book.in_flight,
      searchable: book.type === 'store' ? book.taken : 0,
      late: book.lag_seconds,
      balanced: book.unaccounted_records === 0,
    }
  })
  return [...sources, ...outputs]
}

/** Records that were either delivered or lost. */
export type Decided = Pick<Delivery, 'delivered' | 'lost'>

/** Delivered of all that was decided; undefined before that. */
export function ratioOf({ delivered, lost }: Decided): number | undefined {
  return delivered + lost > 0 ? delivered / (delivered + lost) : undefined
}

/** What may be lost of everything that was decided, at a target such as 0.999. */
export function allowedLoss({ delivered, lost }: Decided, target: number): number {
  return (delivered + lost) * (1 - target)
}

/**
 * What is left of the error budget, as a share of it: below zero once more was lost than the target
 * permits. Undefined while nothing was decided.
 */
export function budgetLeft(one: Decided, target: number): number | undefined {
  const allowed = allowedLoss(one, target)
  return allowed > 0 ? 1 - one.lost / allowed : undefined
}

/** What is left of the error budget, in words. */
export function budgetText(left: number): string {
  return left < 0 ? `overspent ×${short(1 - left)}` : percent(left)
}

/** A ratio in percent with as many digits as show the loss: 1 of a million is 99.9999 %. */
export function ratioText(one: Decided): string {
  const ratio = ratioOf(one)
  if (ratio === undefined) return '–'
  if (one.lost === 0) return '100 %'
  const nines = Math.min(6, Math.max(0, Math.floor(-Math.log10(1 - ratio)) - 1))
  // Rounded down: what was lost is never shown as nothing.
  const scale = 10 ** nines
  return `${(Math.floor(ratio * 100 * scale) / scale).toFixed(nines)} %`
}

/** For how long an output's buffer takes everything while its destination takes nothing, seconds. */
export function bufferLasts(room: number, bytesPerSecond: number | undefined): number | undefined {
  return bytesPerSecond && bytesPerSecond > 0 ? Math.max(0, room) / bytesPerSecond : undefined
}
