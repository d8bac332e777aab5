// The path of a record in words: what is known at each hop, and what each time refers to.

import type { HopKind, LogEntry, PathAnswer, PathHop } from '../api/schema'
import { duration, exact } from '../format/numbers'

/** What the record itself contains, for use without a response. */
export function ownHops(record: LogEntry): PathHop[] {
  const details = record.weir
  const timestamp = details?.timestamp ?? record.attributes.timestamp
  return [
    { kind: 'written', state: 'passed', time: timestamp, time_of: 'record' },
    {
      kind: 'received',
      state: 'passed',
      name: details?.source ?? null,
      time: details?.arrival ?? null,
      time_of: 'block',
      delay_ns: details?.lag_ns ?? null,
      since: 'written',
    },
  ]
}

/** Whether the record has not arrived everywhere, so that a later response has more. */
export function isOnItsWay(answer: PathAnswer): boolean {
  return answer.hops.some(({ state }) => state === 'waiting' || state === 'may_wait')
}

export function titleOf({ kind, name, type }: PathHop): string {
  switch (kind) {
    case 'written':
      return 'Written'
    case 'received':
      return `Received by ${name || 'weir'}`
    case 'journal':
      return 'Journal'
    case 'segment':
      return `${name || 'store'}, on disk`
    default:
      return type ? `${name} (${type})` : (name ?? '')
  }
}

/** What happens at each hop, for `… after it was written`. */
const happened: Record<HopKind, string> = {
  written: 'it was written',
  received: 'it was received',
  journal: 'it was in the journal',
  output: 'it was delivered',
  store: 'it was searchable',
  segment: 'it was on disk',
}

export function delayText({ delay_ns, since }: PathHop): string {
  if (delay_ns === undefined || delay_ns === null || !since) return ''
  if (delay_ns < 0) {
    const behind = since === 'written' ? ': the clock of its sender is ahead' : ''
    return `${duration(-delay_ns)} before ${happened[since]}${behind}`
  }
  return `${duration(delay_ns)} after ${happened[since]}`
}

/** What a time refers to, if not to the record. */
export function timeNote({ time_of, kind }: PathHop): string {
  if (time_of === 'batch' && kind !== 'segment') return 'of its batch'
  if (time_of === 'last_of_several') return 'at the latest'
  return ''
}

/** The state of the record at a hop, in a sentence; empty if the time says it. */
export function stateText(hop: PathHop): string {
  const { kind, state, time } = hop
  switch (state) {
    case 'passed':
      return passedText(kind, !!time)
    case 'delivered':
      return 'Delivered.'
    case 'settled':
      return 'Settled: delivered, or discarded and counted, or sent elsewhere by a rule.'
    case 'waiting':
      return kind === 'segment' ? 'In memory; written to disk within minutes.' : 'Waiting.'
    case 'may_wait':
      return 'Its batch is waiting. It is not known whether a rule sent this record here.'
    case 'not_sent':
      return 'No record has been sent here.'
    case 'unknown':
      return kind === 'journal' ? 'The journal does not know its stream.' : 'Nothing is known.'
  }
}

function passedText(kind: HopKind, isTimed: boolean): string {
  if (kind === 'store') return isTimed ? 'Stored.' : 'Stored. The time is no longer kept.'
  if (kind === 'journal' && !isTimed) return 'The time is kept for the latest batches only.'
  return ''
}

/** The mean delay at an output whose time for this record is unknown. */
export function meanText({ mean_delay_ns, mean_of_batches, time }: PathHop): string {
  if (time || !mean_delay_ns || !mean_of_batches) return ''
  return `The time is not kept. Usually ${duration(mean_delay_ns)} after arrival, the mean of ${exact(mean_of_batches)} batches.`
}

/** Delays above this are marked, nanoseconds. */
const late = 60e9

export function toneOf({ state, delay_ns }: PathHop): string {
  switch (state) {
    case 'waiting':
    case 'may_wait':
      return 'caution'
    case 'unknown':
    case 'not_sent':
      return ''
    default:
      return Math.abs(delay_ns ?? 0) > late ? 'caution' : 'good'
  }
}
