// The current question: the query, the range with its ends resolved, and calculated fields. All
// panels answer the same question, so what they show belongs together.
import { computed, signal } from '@preact/signals'
import { now } from '../api/client'
import { go, parameter } from '../state/location'
import { zone, zoneName } from '../state/settings'
import { defaultRange, fixed, type Range, resolveRange, type Span, validRange } from '../time/range'

export interface Question {
  query: string
  span: Span
  measures: Record<string, string>
}

export const query = parameter('q')
const from = parameter('from')
const to = parameter('to')
const measure = parameter('measure')

/** The range in the address, which may have been written by hand: the default if it is invalid. */
export const range = computed<Range>(() => {
  const asked = { from: from.value || defaultRange.from, to: to.value || defaultRange.to }
  return validRange(asked, now(), zoneName(zone.value))
})

/** Increases when the same question is asked again. */
const turn = signal(0)

export const question = computed<Question>(() => {
  turn.value
  return {
    query: query.value,
    span: resolveRange(range.value, now(), zoneName(zone.value)),
    measures: readMeasures(measure.value),
  }
})

/** `name = arithmetic`, several with semicolons between. */
export function readMeasures(text: string): Record<string, string> {
  const found = text.split(';').flatMap((one) => {
    const match = /^\s*@?([\w.]+)\s*=\s*(.+?)\s*$/.exec(one)
    return match ? [[match[1] ?? '', match[2] ?? ''] as const] : []
  })
  return Object.fromEntries(found)
}

export function askAgain(): void {
  turn.value += 1
}

/** Changes the query, or runs the current one again. */
export function setQuery(text: string): void {
  const next = text.trim()
  if (next === query.peek()) askAgain()
  else go({ q: next, row: null })
}

/** Previous ranges, for going back. */
export const rangesBefore = signal<Range[]>([])

const rangesKept = 20

export function setRange(next: Range): void {
  rangesBefore.value = [...rangesBefore.peek(), range.peek()].slice(-rangesKept)
  goToRange(next)
}

export function setSpan(span: Span): void {
  const floor = Math.floor(span.from)
  setRange(fixed({ from: floor, to: Math.max(Math.ceil(span.to), floor + 1) }))
}

export function previousRange(): void {
  const before = rangesBefore.peek()
  const last = before.at(-1)
  if (!last) return
  rangesBefore.value = before.slice(0, -1)
  goToRange(last)
}

function goToRange(next: Range): void {
  const same = next.from === range.peek().from && next.to === range.peek().to
  if (same) askAgain()
  else go({ from: next.from, to: next.to })
}

/** The question as members of a request body. */
export function filterOf({ query, span }: Question) {
  return { query, from: new Date(span.from).toISOString(), to: new Date(span.to).toISOString() }
}

export function addressOf(asked: Question) {
  const measures = Object.keys(asked.measures).length > 0 ? JSON.stringify(asked.measures) : ''
  return { ...filterOf(asked), ...(measures ? { calculated_fields: measures } : {}) }
}
