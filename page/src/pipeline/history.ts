// The history of every rate over the last minutes, for sparklines, and the current value of each
// rate, which is the same in all parts of the page.
import { batch, effect, signal } from '@preact/signals'
import type { OutputStatus } from '../api/schema'
import { type Status, status, statusBefore } from '../state/status'
import { rateOf } from './figures'

const kept = 150

export const history = signal<Record<string, number[]>>({})

/** Time between readings, seconds; the newest last, as in the history. */
const lengths = signal<number[]>([])

/** When the last lines came in, by the browser's clock; 0 while none have since the page was opened. */
export const lastIncoming = signal(0)

/** Lines that all sources have taken in. */
function linesTaken(document: Status): number {
  return document.sources.reduce((sum, { book }) => sum + book.book.lines, 0)
}

/** Bytes that all sources have taken in. */
function bytesTaken(document: Status): number {
  return document.sources.reduce((sum, { book }) => sum + book.book.bytes_read, 0)
}

/** What was delivered; the store makes what it has taken durable, and acknowledges it, many at a time. */
function deliveredBy(output: OutputStatus | undefined): number | undefined {
  if (!output) return undefined
  const { book, type, taken } = output.book
  return type === 'store' ? book.delivered + taken : book.delivered
}

type Counter = [string, (document: Status) => number | undefined]

function countersOf(document: Status): Counter[] {
  const sources = document.sources.map(
    ({ book }): Counter => [
      `source:${book.name}`,
      (one) => one.sources.find((source) => source.book.name === book.name)?.book.book.lines,
    ],
  )
  const outputs = document.outputs.map(
    ({ book }): Counter => [
      `output:${book.name}`,
      (one) => deliveredBy(one.outputs.find((output) => output.book.name === book.name)),
    ],
  )
  return [...sources, ...outputs, ['cpu', (one) => one.cpu_seconds], ['bytes', bytesTaken]]
}

/** Records the history from now on. */
export function keepHistory(): () => void {
  return effect(() => {
    const document = status.value
    const before = statusBefore.value
    if (!document || !before) return
    const next = { ...history.peek() }
    for (const [name, counter] of countersOf(document)) {
      const found = rateOf(before, document, counter)
      if (found !== undefined) next[name] = [...(next[name] ?? []), found].slice(-kept)
    }
    const length = (document.time_unix_ns - before.time_unix_ns) / 1e9
    batch(() => {
      if (linesTaken(document) > linesTaken(before)) lastIncoming.value = Date.now()
      history.value = next
      lengths.value = [...lengths.peek(), length].slice(-kept)
    })
  })
}

/** The interval that a displayed rate is averaged over, so that it can be read, seconds. */
const window = 5

/** The mean over the last few seconds, or over a single longer interval. */
export function steady(name: string): number | undefined {
  return meanOf(history.value[name] ?? [], lengths.value)
}

/** The mean of the last rates, each of which held for so many seconds, over at least the window. */
export function meanOf(rates: number[], seconds: number[]): number | undefined {
  let [sum, time] = [0, 0]
  for (let back = 1; back <= rates.length && time < window; back += 1) {
    const length = seconds.at(-back) ?? 0
    sum += (rates.at(-back) ?? 0) * length
    time += length
  }
  return time > 0 ? sum / time : undefined
}

/** Incoming lines of all sources, per second. */
export function incoming(document: Status): number | undefined {
  const rates = document.sources.map(({ book }) => steady(`source:${book.name}`))
  const known = rates.filter((one) => one !== undefined)
  return known.length > 0 ? known.reduce((all, one) => all + one, 0) : undefined
}
