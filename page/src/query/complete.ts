// Completion: what can be inserted at a position of an expression: fields, values, units,
// operators, and recent queries while it is empty.
import { get } from '../api/client'
import { unitOf } from '../explore/facets'
import type { Question } from '../explore/question'
import { addressOf } from '../explore/question'
import { isTime } from '../format/numbers'
import { queriesBefore, queriesRead } from '../state/views'
import { quoteKey, quoteValue, unquoteKey } from './quote'
import { scan } from './scan'
import { withoutField } from './terms'

export type Place =
  | { kind: 'field'; from: number; to: number; prefix: string }
  | {
      kind: 'value'
      from: number
      to: number
      prefix: string
      field: string
      /** Whether it is behind a comparison or in a range. */
      compared: boolean
    }

/** Where the cursor is: in a field's name, or in a value of a field. */
export function placeAt(text: string, cursor: number): Place {
  const open: Array<{ field: string | undefined; compared: boolean }> = []
  let key: string | undefined
  let compared = false
  let from = cursor
  let to = cursor
  for (const token of scan(text)) {
    if (token.from >= cursor) break
    const piece = text.slice(token.from, token.to)
    const inside = token.to >= cursor
    if (token.kind === 'comparison') compared = true
    else if (token.kind !== 'number' && token.kind !== 'text') compared = false
    if (token.kind === 'bracket') {
      if (/[([{]/.test(piece)) {
        open.push({ field: key ?? open.at(-1)?.field, compared: piece !== '(' })
      } else open.pop()
      key = undefined
    } else if (token.kind === 'key') {
      if (inside && token.to > cursor) from = token.from
      else key = unquoteKey(piece.slice(0, -1))
    } else if (token.kind === 'space') key = undefined
    else if (inside && token.kind !== 'comparison' && token.kind !== 'operator') {
      from = token.from
      to = token.to
    }
  }
  const prefix = text.slice(from, cursor)
  const field = key ?? open.at(-1)?.field
  if (field === undefined) return { kind: 'field', from, to, prefix }
  const isCompared = compared || (key === undefined && open.at(-1)?.compared === true)
  return {
    kind: 'value',
    from,
    to,
    prefix: prefix.replace(/^["“”]/, ''),
    field,
    compared: isCompared,
  }
}

export interface Suggestion {
  label: string
  /** The text to insert. */
  text: string
  detail: string
  /** Position of the cursor in the text; by default after it. */
  cursor?: number
  kind: 'field' | 'value' | 'operator' | 'query'
}

const reserved: Array<[string, string]> = [
  ['status', 'severity'],
  ['service', 'program'],
  ['host', 'machine'],
  ['source', "weir's source"],
  ['message', 'text'],
  ['trace_id', 'trace'],
  ['tags', 'complete tags'],
]

const listed = 40

export async function suggest(
  place: Place,
  question: Question,
  text: string,
  signal: AbortSignal,
): Promise<Suggestion[]> {
  return place.kind === 'field'
    ? suggestFields(place.prefix, question, signal)
    : suggestValues(place, question, text, signal)
}

async function suggestFields(prefix: string, question: Question, signal: AbortSignal) {
  const { from, to } = addressOf(question)
  const asked = [prefix, ...(prefix && !prefix.startsWith('@') ? [`@${prefix}`] : [])]
  const answers = await Promise.all(
    asked.map((one) => get('/weir/v1/fields', { prefix: one, from, to, limit: listed }, signal)),
  )
  const known = reserved.filter(([name]) => name.startsWith(prefix.toLowerCase()))
  const found = answers.flatMap((answer) =>
    answer.fields.map((field) => [unquoteKey(field.name), field.type] as const),
  )
  const names = new Map<string, string>([...known, ...found, ...known])
  const fields = [...names].map(([name, detail]) => fieldSuggestion(name, detail))
  const operators = /^[A-Z]+$/.test(prefix)
    ? ['AND', 'OR', 'NOT'].filter((one) => one.startsWith(prefix))
    : []
  return [...operators.map(operatorSuggestion), ...fields]
}

function fieldSuggestion(name: string, detail: string): Suggestion {
  return { label: name, text: `${quoteKey(name)}:`, detail, kind: 'field' }
}

function operatorSuggestion(name: string): Suggestion {
  return { label: name, text: `${name} `, detail: 'operator', kind: 'operator' }
}

async function suggestValues(
  place: Place & { kind: 'value' },
  question: Question,
  text: string,
  signal: AbortSignal,
): Promise<Suggestion[]> {
  const units = place.compared ? unitsOf(place) : []
  if (units.length > 0) return units
  const others = withoutField(text, place.field)
  const asked = {
    ...addressOf(question),
    field: quoteKey(place.field),
    prefix: place.prefix,
    limit: listed,
  }
  const answer = await get('/weir/v1/values', { ...asked, query: others }, signal).catch(() =>
    get('/weir/v1/values', { ...asked, query: '' }, signal),
  )
  const values = answer.values.map((entry) => ({
    label: String(entry.value),
    text: quoteValue(entry.value),
    detail: entry.count.toLocaleString('en'),
    kind: 'value' as const,
  }))
  if (place.prefix || place.compared) return values
  const operators = operatorsOf(place.field)
  // For a number with many values, a comparison is more useful than a value.
  const isMeasure = answer.values.every((entry) => typeof entry.value === 'number')
  return isMeasure && values.length === listed
    ? [...operators, ...values]
    : [...values, ...operators]
}

const timeUnits = ['ms', 's', 'min', 'h', 'us', 'ns']
const sizeUnits = ['KiB', 'MiB', 'GiB', 'kB', 'MB', 'GB', 'B']

/** The number at the cursor with each unit that its field can have. */
export function unitsOf({ field, prefix }: { field: string; prefix: string }): Suggestion[] {
  const [, number, begun] = /^([+-]?\d+(?:\.\d+)?)([a-zµ]*)$/i.exec(prefix) ?? []
  const unit = unitOf(field)
  if (number === undefined || begun === undefined || !unit) return []
  return (isTime(unit) ? timeUnits : sizeUnits)
    .filter((one) => one.startsWith(begun))
    .map((one) => ({ label: number + one, text: number + one, detail: 'unit', kind: 'operator' }))
}

const recentListed = 8

/** Recent queries, for an empty one. */
export async function recentQueries(): Promise<Suggestion[]> {
  await queriesRead()
  return queriesBefore
    .peek()
    .slice(0, recentListed)
    .map((text) => ({ label: text, text, detail: 'recent', kind: 'query' }))
}

export function operatorsOf(field: string): Suggestion[] {
  const some: Array<[string, string]> = [
    ['*', 'any value'],
    ['(a OR b)', 'one of several'],
  ]
  const numbers: Array<[string, string]> = [
    ['>', 'more than'],
    ['[1 TO 2]', 'from … to …'],
  ]
  const shown = field.startsWith('@') || field === 'status' ? [...some, ...numbers] : some
  return shown.map(([label, detail]) => ({ label, ...writtenAs(label), detail, kind: 'operator' }))
}

/** What is put in for an operator: brackets are closed at once, and the cursor goes between them. */
function writtenAs(label: string): Pick<Suggestion, 'text' | 'cursor'> {
  if (label.startsWith('(')) return { text: '()', cursor: 1 }
  if (label.startsWith('[')) return { text: '[ TO ]', cursor: 1 }
  return { text: label }
}
