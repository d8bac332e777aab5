// How values and names of fields are quoted in an expression, so that they are taken literally.
import { jsonOf } from '../api/exact'

/** Characters that need no quotes in a value. */
const plain = /^[\p{L}\p{N}_.@+%#,;~=/-]+$/u
/** A number with a unit would be converted; text that looks like one must not be. */
const united = /^[\d.]+(e\d+)?[a-zµ]+$/i

export function quoteValue(value: unknown): string {
  if (typeof value !== 'string' && typeof value !== 'object') return `${value}`
  const text = typeof value === 'string' ? value : jsonOf(value)
  if (isPlain(text)) return text
  return `"${text.replaceAll('\\', '\\\\').replaceAll('"', '\\"')}"`
}

function isPlain(text: string): boolean {
  if (!plain.test(text) || united.test(text)) return false
  if (/^(AND|OR|NOT|TO)$/.test(text) || /^[-+/#]/.test(text)) return false
  return true
}

/** The name of a field as it is written in an expression and in requests, as weir itself writes it. */
export function quoteKey(name: string): string {
  const escaped = name.replace(/[^\w./$@%\u{80}-\u{10ffff}-]|[“”]/gu, (char) => `\\${char}`)
  return /^[-/]/.test(name) ? `\\${escaped}` : escaped
}

/** The name of a field from an expression or an answer, without what is escaped in it. */
export function unquoteKey(written: string): string {
  return written.replace(/\\(.)/gu, '$1')
}

/** The value that a piece of an expression denotes, if it is a single value. */
export function unquote(text: string): string | undefined {
  if (/^["“”]/.test(text)) {
    if (text.length < 2 || !/["“”]$/.test(text)) return undefined
    return text.slice(1, -1).replace(/\\(["\\])/g, '$1')
  }
  if (/^[<>[{/(]/.test(text) || /(^|[^\\])[*?]/.test(text)) return undefined
  return unquoteKey(text)
}
