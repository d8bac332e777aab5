// An expression as a list of terms that must all match, which clicks on values change. If there is
// an OR at the top level, the expression becomes a single term in parentheses.
import { quoteKey, quoteValue, unquote, unquoteKey } from './quote'
import { scan, type Token } from './scan'

export interface Term {
  text: string
  negated: boolean
  /** The key with its `@`, unescaped; absent for words and groups. */
  field?: string
  /** The values of which one must match, if the term is a plain list of values. */
  values?: string[]
}

export type ValueState = 'included' | 'excluded' | undefined

export function parseTerms(query: string): Term[] {
  const tokens = scan(query)
  const top = piecesOf(query, tokens)
  if (top.some((piece) => piece === 'OR' || piece === '||')) {
    return [{ text: `(${query.trim()})`, negated: false }]
  }
  const terms: Term[] = []
  let negate = false
  for (const piece of top) {
    if (piece === 'AND' || piece === '&&') continue
    if (piece === 'NOT') {
      negate = !negate
      continue
    }
    terms.push(termOf(negate ? `-${piece}` : piece))
    negate = false
  }
  return terms.filter((term) => term.text !== '*' && term.text !== '')
}

/** The pieces between the spaces that are in no brackets. */
function piecesOf(query: string, tokens: Token[]): string[] {
  const pieces: string[] = []
  let depth = 0
  let current = ''
  for (const token of tokens) {
    const text = query.slice(token.from, token.to)
    if (token.kind === 'bracket') depth += /[([{]/.test(text) ? 1 : -1
    if (token.kind === 'space' && depth <= 0) {
      if (current) pieces.push(current)
      current = ''
    } else current += text
  }
  if (current) pieces.push(current)
  return pieces
}

function termOf(text: string): Term {
  const negated = /^-[^\d]/.test(text)
  const body = negated ? text.slice(1) : text
  const key = scan(body)[0]
  if (key?.kind !== 'key') return { text, negated }
  const field = unquoteKey(body.slice(0, key.to - 1))
  const values = valuesOf(body.slice(key.to))
  return values ? { text, negated, field, values } : { text, negated, field }
}

function valuesOf(text: string): string[] | undefined {
  const inner = /^\((.*)\)$/s.exec(text)?.[1]
  if (inner === undefined) {
    const value = unquote(text)
    return value === undefined || text === '' ? undefined : [value]
  }
  const pieces = piecesOf(inner, scan(inner))
  const values = pieces.filter((piece) => piece !== 'OR' && piece !== '||')
  if (pieces.length !== values.length * 2 - 1) return undefined
  const decoded = values.map(unquote)
  return decoded.every((value) => value !== undefined) ? decoded : undefined
}

export function printTerms(terms: Term[]): string {
  return terms.map((term) => term.text).join(' ')
}

function written(field: string, values: unknown[], negated: boolean): Term {
  const texts = values.map(quoteValue)
  const list = texts.length === 1 ? texts[0] : `(${texts.join(' OR ')})`
  const text = `${negated ? '-' : ''}${quoteKey(field)}:${list}`
  return { text, negated, field, values: values.map(String) }
}

export function stateOf(terms: Term[], field: string, value: unknown): ValueState {
  const text = String(value)
  const found = terms.find((term) => term.field === field && term.values?.includes(text))
  if (!found) return undefined
  return found.negated ? 'excluded' : 'included'
}

/** The query with a value included or excluded, replacing what it said about that value. */
export function withValue(query: string, field: string, value: unknown, state: ValueState): string {
  const without = removeValue(parseTerms(query), field, String(value))
  if (!state) return printTerms(without)
  const negated = state === 'excluded'
  const at = without.findIndex(
    (term) => term.field === field && term.negated === negated && term.values,
  )
  const known = without[at]?.values
  if (at < 0 || !known) return printTerms([...without, written(field, [value], negated)])
  return printTerms(without.with(at, written(field, [...known, value], negated)))
}

function removeValue(terms: Term[], field: string, value: string): Term[] {
  return terms.flatMap((term) => {
    if (term.field !== field || !term.values?.includes(value)) return [term]
    const left = term.values.filter((other) => other !== value)
    return left.length > 0 ? [written(field, left, term.negated)] : []
  })
}

/** The query with this value as the only one included for its field. */
export function withOnly(query: string, field: string, value: unknown): string {
  return printTerms([...parseTerms(withoutField(query, field)), written(field, [value], false)])
}

export function withoutField(query: string, field: string): string {
  return printTerms(parseTerms(query).filter((term) => term.field !== field))
}

/** The query with a range for a numeric field, replacing what it said about that field. */
export function withRange(query: string, field: string, low: string, high: string): string {
  const rest = parseTerms(withoutField(query, field))
  if (!low && !high) return printTerms(rest)
  const key = quoteKey(field)
  const text =
    low && high ? `${key}:[${low} TO ${high}]` : low ? `${key}:>=${low}` : `${key}:<=${high}`
  return printTerms([...rest, { text, negated: false, field }])
}

/** The query with one more condition, as it is written. */
export function withTerm(query: string, text: string): string {
  const terms = parseTerms(query)
  return terms.some((term) => term.text === text) ? query : printTerms([...terms, termOf(text)])
}

/** Words and phrases that the query searches for in messages, to be highlighted. */
export function markedWords(query: string): string[] {
  return parseTerms(query).flatMap((term) => {
    if (term.negated || (term.field && term.field !== 'message')) return []
    if (term.values && term.field) return term.values
    if (term.text.startsWith('(')) return []
    const value = unquote(term.text)
    return value ? [value] : []
  })
}
