// How values and keys are written in an expression, so that they mean just themselves.

/** What stands for itself wherever it is in a value. */
const plain = /^[\p{L}\p{N}_.@+%#,;~=/-]+$/u
/** A number with a unit would be converted; a text that looks like one must not be. */
const united = /^[\d.]+(e\d+)?[a-zµ]+$/i

export function quoteValue(value: unknown): string {
  if (typeof value === 'number' || typeof value === 'boolean') return `${value}`
  const text = typeof value === 'string' ? value : JSON.stringify(value)
  if (isPlain(text)) return text
  return `"${text.replaceAll('\\', '\\\\').replaceAll('"', '\\"')}"`
}

function isPlain(text: string): boolean {
  if (!plain.test(text) || united.test(text)) return false
  if (/^(AND|OR|NOT|TO)$/.test(text) || /^[-+/#]/.test(text)) return false
  return true
}

/** A key as it is written: what would end it is escaped. */
export function quoteKey(name: string): string {
  return name.replace(/[\s:()"“”\\*?]/g, (char) => `\\${char}`)
}

/** The value that a piece of an expression stands for, if it stands for one alone. */
export function unquote(text: string): string | undefined {
  if (/^["“”]/.test(text)) {
    if (text.length < 2 || !/["“”]$/.test(text)) return undefined
    return text.slice(1, -1).replace(/\\(["\\])/g, '$1')
  }
  if (/^[<>[{/(]/.test(text) || /(^|[^\\])[*?]/.test(text)) return undefined
  return text.replace(/\\(.)/g, '$1')
}
