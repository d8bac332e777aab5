// Converts a row of a live tail to a record as a search returns it, so that one drawer shows both.
// Rows use OpenTelemetry's terms, and are only parsed when they are shown.
import { parseExact } from '../api/exact'
import type { LogEntry } from '../api/schema'
import { isObject, pathIn, textOf } from '../explore/record'
import { readStatus } from '../format/status'
import { nanosecondsBetween } from '../time/nanoseconds'

interface TailRow {
  /** The ID in searches, once it is stored. */
  id?: string
  timestamp?: string
  /** When weir received it. */
  observed_timestamp?: string
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
  const message = inner ? valueIn(attributes, messagePaths) : textOf(row.body)
  delete attributes.message
  const timestamp = row.timestamp ?? ''
  const severity = row.severity_text ?? valueIn(attributes, severityPaths)
  return {
    id: row.id ?? id,
    type: 'log',
    attributes: {
      timestamp,
      service: ofResource(resource, serviceKey) ?? valueIn(attributes, servicePaths) ?? null,
      host: ofResource(resource, hostKey) ?? valueIn(attributes, hostPaths) ?? null,
      status: readStatus(severity),
      message: message ?? textOf(row.body),
      tags: tagsOf(attributes, resource),
      attributes,
    },
    weir: {
      timestamp,
      stream: row.stream ?? '',
      position: row.position ?? '',
      source: row.source ?? null,
      arrival: row.observed_timestamp ?? null,
      lag_ns: nanosecondsBetween(row.timestamp, row.observed_timestamp) ?? null,
    },
  }
}

/**
 * Where a record has what a search calls its message, service, host and status: the same places in the
 * same order, so that a filter made from a row finds the row. A resource comes before all of them.
 */
const serviceKey = 'service.name'
const hostKey = 'host.name'
const messagePaths = ['message', 'msg', 'log']
const servicePaths = ['service.name', 'service', 'syslog.appname']
const hostPaths = ['host.name', 'hostname', 'host', 'syslog.hostname']
const severityPaths = ['status', 'level', 'severity', 'lvl', 'syslog.severity']

function ofResource(resource: Record<string, unknown>, key: string): string | undefined {
  return resource[key] === undefined ? undefined : textOf(resource[key])
}

function valueIn(attributes: Record<string, unknown>, paths: string[]): string | undefined {
  for (const path of paths) {
    const found = pathIn(attributes, path)
    if (found !== undefined && found !== null && typeof found !== 'object') return textOf(found)
  }
  return undefined
}

function tagsOf(attributes: Record<string, unknown>, resource: Record<string, unknown>): string[] {
  const sent = textOf(attributes.ddtags).split(',').filter(Boolean)
  const others = Object.entries(resource).filter(([key]) => key !== serviceKey && key !== hostKey)
  return [...sent, ...others.map(([key, value]) => `${key}:${textOf(value)}`)]
}

function objectOf(text: string): Record<string, unknown> | undefined {
  if (!text.startsWith('{')) return undefined
  try {
    const value = parseExact(text)
    return isObject(value) ? value : undefined
  } catch {
    return undefined
  }
}
