// JSON in which integers of records keep all their digits. 64-bit IDs do not fit into a JavaScript
// number, so integers beyond 2^53 become a BigInt. Browsers that do not pass the source text of a
// number to a reviver round them.

/** What newer browsers pass to a reviver. */
type Reviver = (key: string, value: unknown, context?: { source?: string }) => unknown

/** Newer browsers write such an object as the text in it. */
const { rawJSON } = JSON as { rawJSON?: (text: string) => unknown }

/** Most texts have no such integer, and are parsed without looking at each value. */
const long = /\d{16}/

/** Figures of weir itself, which are computed with. */
const computed = new Set(['lag_ns', 'interval_ns'])

export function parseExact(text: string): unknown {
  return long.test(text) ? JSON.parse(text, exactly as Reviver) : JSON.parse(text)
}

function exactly(key: string, value: unknown, context?: { source?: string }): unknown {
  if (typeof value !== 'number' || Number.isSafeInteger(value) || computed.has(key)) return value
  const source = context?.source ?? ''
  return /^-?\d+$/.test(source) ? BigInt(source) : value
}

/** A value that came from `parseExact` as JSON. */
export function jsonOf(value: unknown, indent = 0): string {
  return JSON.stringify(value, written, indent) ?? 'null'
}

function written(_key: string, value: unknown): unknown {
  if (typeof value !== 'bigint') return value
  return rawJSON ? rawJSON(`${value}`) : `${value}`
}
