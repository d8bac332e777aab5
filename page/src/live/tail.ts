// The connection of a live tail: reads the stream, counts rows, and reconnects after the last row
// when the connection is lost.
import { batch, signal } from '@preact/signals'
import { address, asProblem, isAbort, type Problem } from '../api/client'
import { readStream, type ServerEvent } from '../api/events'
import { type Incoming, Ring } from './ring'

export type TailState = 'connecting' | 'open' | 'cut' | 'refused' | 'stopped'

export interface Totals {
  matched: number
  shown: number
  skipped: number
  missed: number
}

export interface Second extends Totals {
  sampleRatio: number
}

const none: Totals = { matched: 0, shown: 0, skipped: 0, missed: 0 }

export const tailState = signal<TailState>('stopped')
export const tailProblem = signal<Problem | undefined>(undefined)
/** When the connection was cut, by the browser's clock. */
export const cutAt = signal(0)
export const totals = signal<Totals>(none)
/** The last minute, second by second; the newest last. */
export const seconds = signal<Second[]>([])
export const following = signal(true)
/** Increases with every paint. */
export const paints = signal(0)
export const ring = new Ring()

const minute = 60
/** Rows are drawn in batches, less often when more arrive than anybody can read, milliseconds. */
const paintSoon = 80
const paintSeldom = 240
const manyRows = 100

let pending: Incoming[] = []
let paintTimer = 0
let paintEvery = paintSoon
let lastId = ''
let abort: AbortController | undefined

export function startTail(query: string, maxRate: number): void {
  stopTail()
  lastId = ''
  batch(() => {
    totals.value = none
    seconds.value = []
    following.value = true
    tailProblem.value = undefined
  })
  clearRows()
  const mine = new AbortController()
  abort = mine
  run(address('/weir/v1/tail', { query, max_rate: maxRate }), mine)
}

export function stopTail(): void {
  abort?.abort()
  abort = undefined
  tailState.value = 'stopped'
  window.clearInterval(secondTimer)
}

let secondTimer = 0
let statAt = 0

async function run(url: string, mine: AbortController): Promise<void> {
  window.clearInterval(secondTimer)
  secondTimer = window.setInterval(addQuietSecond, 1_000)
  let wait = 500
  tailState.value = 'connecting'
  while (!mine.signal.aborted) {
    try {
      await readStream(url, lastId, { opened, events: take }, mine.signal)
      wait = 250
    } catch (error) {
      if (isAbort(error) || mine.signal.aborted) return
      const problem = asProblem(error)
      tailProblem.value = problem
      if (problem.kind === 'refused') {
        tailState.value = 'refused'
        return
      }
    }
    if (mine.signal.aborted) return
    if (tailState.peek() !== 'cut') cutAt.value = Date.now()
    tailState.value = 'cut'
    await new Promise((resolve) => window.setTimeout(resolve, wait))
    wait = Math.min(wait * 2, 5_000)
  }
}

function opened(): void {
  if (tailState.peek() === 'cut') {
    const length = Math.max(1, Math.round((Date.now() - cutAt.peek()) / 1_000))
    push({
      kind: 'note',
      text: `reconnected after ${length} s; continuing after the last row`,
    })
  }
  batch(() => {
    tailState.value = 'open'
    tailProblem.value = undefined
  })
}

function take(events: ServerEvent[]): void {
  for (const { id, event, data } of events) {
    if (id) lastId = id
    if (event === 'row') push({ kind: 'row', id, data })
    else if (event === 'stat') takeStat(data)
    else if (event === 'gap') push({ kind: 'gap', text: gapText(data) })
  }
}

function push(entry: Incoming): void {
  pending.push(entry)
  if (!paintTimer) paintTimer = window.setTimeout(paint, paintEvery)
}

function paint(): void {
  paintTimer = 0
  const entries = pending
  pending = []
  paintEvery = entries.length > manyRows ? paintSeldom : paintSoon
  ring.add(entries, following.peek())
  paints.value += 1
}

function takeStat(data: string): void {
  const stat = JSON.parse(data) as Partial<Totals> & { sample_ratio?: number }
  const { matched = 0, shown = 0, skipped = 0, missed = 0 } = stat
  const before = totals.peek()
  statAt = Date.now()
  addSecond({ matched, shown, skipped, missed, sampleRatio: stat.sample_ratio ?? 1 })
  totals.value = {
    matched: before.matched + matched,
    shown: before.shown + shown,
    skipped: before.skipped + skipped,
    missed: before.missed + missed,
  }
}

function addSecond(second: Second): void {
  seconds.value = [...seconds.peek(), second].slice(-minute)
}

/** Seconds in which nothing matches have no stat. */
function addQuietSecond(): void {
  if (Date.now() - statAt > 1_500) addSecond({ ...none, sampleRatio: 1 })
}

const reasons: Record<string, string> = {
  'too slow': 'this page was too slow',
}

export function gapText(data: string): string {
  const gap = JSON.parse(data) as { records?: number | null; reason?: string }
  const count = gap.records == null ? 'records' : `${gap.records.toLocaleString('en')} records`
  const reason = gap.reason
    ? (reasons[gap.reason] ?? gap.reason.replaceAll('_', ' '))
    : 'reason unknown'
  return `${count} missing: ${reason}`
}

export function clearRows(): void {
  pending = []
  ring.clear()
  paints.value += 1
}

export function markNow(): void {
  push({ kind: 'note', text: `marked at ${new Date().toLocaleTimeString('en-GB')}` })
}

export function follow(): void {
  ring.catchUp()
  batch(() => {
    following.value = true
    paints.value += 1
  })
}

export function pause(): void {
  following.value = false
}
