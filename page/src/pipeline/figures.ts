// Figures of the pipeline from weir's counters: rates between two readings, losses and intended
// discards, states in words.

import type { OutputStatus, SourceStatus } from '../api/schema'
import type { Status } from '../state/status'

/** Intended discards; all others are losses. The metrics have the same list. */
const chosen = new Set([
  'rule',
  'sampled',
  'unrouted',
  'rate_limit',
  'cursor_dropped',
  'drain_removed',
  'skipped_at_start',
])

export interface Loss {
  /** Records that were lost unintentionally. */
  lost: number
  chosen: number
  reasons: Array<{ reason: string; count: number; chosen: boolean }>
}

export function lossOf(discarded: Record<string, number>): Loss {
  const reasons = Object.entries(discarded)
    .filter(([, count]) => count > 0)
    .map(([reason, count]) => ({ reason, count, chosen: chosen.has(reason) }))
    .sort((a, b) => Number(a.chosen) - Number(b.chosen) || b.count - a.count)
  const sum = (wanted: boolean) =>
    reasons.filter((one) => one.chosen === wanted).reduce((total, one) => total + one.count, 0)
  return { lost: sum(false), chosen: sum(true), reasons }
}

export interface Totals {
  taken: number
  lost: number
  deadLettered: number
  unaccounted: number
  balanced: boolean
}

export function totalsOf(document: Status): Totals {
  const sources = document.sources.map((source) => source.book)
  const outputs = document.outputs.map((output) => output.book)
  const add = (values: number[]) => values.reduce((total, value) => total + value, 0)
  const lostLines = sources.map((source) => lossOf(source.book.discarded).lost)
  const lostRecords = outputs.map((output) => lossOf(output.book.discarded).lost)
  const unaccounted =
    add(sources.map((source) => Math.abs(source.unaccounted_lines))) +
    add(outputs.map((output) => Math.abs(output.unaccounted_records)))
  return {
    taken: add(sources.map((source) => source.book.records)),
    lost: add([...lostLines, ...lostRecords]),
    deadLettered: add(outputs.map((output) => output.book.dead_lettered)),
    unaccounted,
    balanced: unaccounted === 0,
  }
}

/** The rate of a counter between two readings, per second; undefined without two of them. */
export function rateOf(
  before: Status | undefined,
  after: Status,
  counter: (document: Status) => number | undefined,
): number | undefined {
  if (!before) return undefined
  const length = (after.time_unix_ns - before.time_unix_ns) / 1e9
  const [first, last] = [counter(before), counter(after)]
  if (length <= 0 || first === undefined || last === undefined) return undefined
  return Math.max(0, (last - first) / length)
}

export function sourceIn(name: string, document: Status): SourceStatus | undefined {
  return document.sources.find((source) => source.book.name === name)
}

export function outputIn(name: string, document: Status): OutputStatus | undefined {
  return document.outputs.find((output) => output.book.name === name)
}

export interface State {
  tone: 'good' | 'caution' | 'bad' | ''
  text: string
}

/** An output that is nearly full will soon block its sources, or discard. */
const nearlyFull = 0.8

/** Whether a lag is worth mentioning. */
export function isLate(lag: number): boolean {
  return lag > 10
}

export function deliveryState(fill: number, lag: number): State {
  if (fill > nearlyFull) return { tone: 'caution', text: 'nearly full' }
  if (isLate(lag)) return { tone: 'caution', text: 'lagging' }
  return { tone: 'good', text: 'delivering' }
}

/** Records are here because their drains lag, so a lag alone is not a problem. */
export function laggingState(fill: number, waiting: number): State {
  if (fill > nearlyFull) return { tone: 'caution', text: 'nearly full' }
  return waiting > 0
    ? { tone: 'caution', text: 'catching up' }
    : { tone: 'good', text: 'no drain is lagging' }
}

/** Seconds until an output is full at the current rate; undefined while its backlog does not grow. */
export function fullIn(
  before: Status | undefined,
  after: Status,
  name: string,
): number | undefined {
  const pending = (document: Status) => outputIn(name, document)?.book.pending_bytes
  const growth = rateOf(before, after, pending)
  const book = outputIn(name, after)?.book
  if (!growth || !book) return undefined
  return (book.buffer_bytes_max - book.pending_bytes) / growth
}
