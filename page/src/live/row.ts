// A row of a live tail as a record in the shape of a search, so that one drawer shows both. Rows come
// in the terms of OpenTelemetry and are read only when they are looked at.
import type { LogEntry } from '../api/schema'
import { isObject, textOf } from '../explore/record'
import { readStatus } from '../format/status'

interface TailRow {
  timestamp?: string
  severity_text?: string
  body?: unknown
  attributes?: unknown
  resource?: unknown
  source?: string
  stream?: string
  position?: string
}

const unreadable: LogEntry = {
  id: '',
  type: 'log',
  attributes: { timestamp: '', tags: [], attributes: {}, message: 'This row could not be parsed.' },
}

export function readRow(id: string, data: string): LogEntry {
  const row = objectOf(data)
  return row ? entryOf(id, row) : { ...unreadable, id }
}

function entryOf(id: string, row: TailRow): LogEntry {
  const inner =
    typeof row.body === 'string' ? objectOf(row.body) : isObject(row.body) ? row.body : undefined
  const own = isObject(row.attributes) ? row.attributes : {}
  const attributes: Record<string, unknown> = { ...own, ...inner }
  const resource = isObject(row.resource) ? row.resource : {}
  const first = (...names: string[]) => {
    for (const name of names) {
      const found = attributes[name] ?? resource[name]
      if (found !== undefined) return textOf(found)
    }
    return undefined
  }
  const message = inner ? first('message', 'msg', 'log') : textOf(row.body)
  delete attributes.message
  const timestamp = row.timestamp ?? ''
  return {
    id,
    type: 'log',
    attributes: {
      timestamp,
      service: first('service', 'service.name', 'container.name') ?? null,
      host: first('host', 'hostname', 'host.name') ?? null,
      status: readStatus(row.severity_text ?? first('status', 'level', 'severity')),
      message: message ?? textOf(row.body),
      tags: tagsOf(attributes, resource),
      attributes,
    },
    weir: {
      timestamp,
      stream: row.stream ?? '',
      position: row.position ?? '',
      source: row.source ?? null,
    },
  }
}

function tagsOf(attributes: Record<string, unknown>, resource: Record<string, unknown>): string[] {
  const sent = textOf(attributes.ddtags).split(',').filter(Boolean)
  return [...sent, ...Object.entries(resource).map(([key, value]) => `${key}:${textOf(value)}`)]
}

function objectOf(text: string): Record<string, unknown> | undefined {
  if (!text.startsWith('{')) return undefined
  try {
    const value: unknown = JSON.parse(text)
    return isObject(value) ? value : undefined
  } catch {
    return undefined
  }
}
