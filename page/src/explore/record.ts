// Values of a record by the names that expressions use.
import { jsonOf } from '../api/exact'
import type { LogEntry } from '../api/schema'
import { tidy } from '../format/numbers'

/** From the time of a record to its arrival; an attribute of that name takes precedence. */
export const lagField = '@lag'

/** `undefined` when the record has no such field. */
export function fieldOf(record: LogEntry, field: string): unknown {
  const { attributes } = record
  switch (field) {
    case 'timestamp':
      return record.weir?.timestamp ?? attributes.timestamp
    case 'message':
      return attributes.message ?? undefined
    case 'status':
      return attributes.status ?? undefined
    case 'service':
      return attributes.service ?? undefined
    case 'host':
      return attributes.host ?? undefined
    case 'source':
      return record.weir?.source ?? tagOf(record, 'source')
    default:
      if (field.startsWith('@')) {
        const own = pathIn(attributes.attributes, field.slice(1))
        return field === lagField ? (own ?? record.weir?.lag_ns ?? undefined) : own
      }
      return tagOf(record, field) ?? pathIn(attributes.attributes, field)
  }
}

function tagOf(record: LogEntry, key: string): string | undefined {
  const tag = record.attributes.tags.find((one) => one.startsWith(`${key}:`))
  return tag?.slice(key.length + 1)
}

/** A dot in a path separates keys, or is part of one. */
export function pathIn(value: unknown, path: string): unknown {
  if (!isObject(value)) return undefined
  if (Object.hasOwn(value, path)) return value[path]
  for (let dot = path.indexOf('.'); dot > 0; dot = path.indexOf('.', dot + 1)) {
    const inner = value[path.slice(0, dot)]
    const found = inner === undefined ? undefined : pathIn(inner, path.slice(dot + 1))
    if (found !== undefined) return found
  }
  return undefined
}

export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** A value as text. */
export function textOf(value: unknown): string {
  if (value === undefined || value === null) return ''
  return typeof value === 'object' ? jsonOf(value) : String(value)
}

/** A value as text that tells it from others: numbers have all their digits. */
export function valueText(value: unknown): string {
  return typeof value === 'number' ? tidy(value) : textOf(value)
}

export interface FieldValue {
  name: string
  value: unknown
}

/** Attributes flattened to the paths that a query can name. */
export function flatten(value: unknown, prefix = '@'): FieldValue[] {
  if (!isObject(value)) return []
  return Object.entries(value).flatMap(([key, inner]) => {
    const name = prefix === '@' ? `@${key}` : `${prefix}.${key}`
    return isObject(inner) && Object.keys(inner).length > 0
      ? flatten(inner, name)
      : [{ name, value: inner }]
  })
}

/** Fields that identify the request of a record, the most specific first. */
const traceFields = [
  'trace_id',
  '@dd.trace_id',
  '@trace.id',
  '@traceId',
  '@request_id',
  '@http.request_id',
  '@requestId',
  '@correlation_id',
]

export function traceOf(record: LogEntry): { field: string; value: string } | undefined {
  for (const field of traceFields) {
    const value = fieldOf(record, field)
    if (typeof value === 'string' && value) return { field, value }
  }
  return undefined
}

export function timeOf(record: LogEntry): number {
  return Date.parse(record.attributes.timestamp)
}

/** A record as one line of text, as the terminal shows it, whatever is in its message. */
export function lineOf(record: LogEntry): string {
  const { timestamp, host, service, status, message } = record.attributes
  const head = [timestamp, status, host, service].filter(Boolean).join(' ')
  return `${head} ${message ?? ''}`.trim().replace(/\r?\n/g, '\\n')
}
