// The last minutes of every rate, for the small lines beside them.
import { effect, signal } from '@preact/signals'
import type { OutputStatus, StatusDocument } from '../api/schema'
import { status, statusBefore } from '../state/status'
import { rateOf } from './figures'

const kept = 150

export const history = signal<Record<string, number[]>>({})

/** Bytes that all sources have taken in. */
function bytesTaken(document: StatusDocument): number {
  return document.sources.reduce((sum, { book }) => sum + book.book.bytes_read, 0)
}

/** What was delivered; the store makes what it has taken durable, and acknowledges it, many at a time. */
function deliveredBy(output: OutputStatus | undefined): number | undefined {
  if (!output) return undefined
  const { book, type, taken } = output.book
  return type === 'store' ? book.delivered + taken : book.delivered
}

type Counter = [string, (document: StatusDocument) => number | undefined]

function countersOf(document: StatusDocument): Counter[] {
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

/** Keeps the history while somebody looks at it. */
export function keepHistory(): () => void {
  return effect(() => {
    const document = status.data.value
    const before = statusBefore.value
    if (!document || !before) return
    const next = { ...history.peek() }
    for (const [name, counter] of countersOf(document)) {
      const found = rateOf(before, document, counter)
      if (found !== undefined) next[name] = [...(next[name] ?? []), found].slice(-kept)
    }
    history.value = next
  })
}

/** The mean of the last few looks, so that a figure can be read. */
export function steady(name: string): number | undefined {
  const values = history.value[name]?.slice(-5)
  if (!values || values.length === 0) return undefined
  return values.reduce((sum, value) => sum + value, 0) / values.length
}
