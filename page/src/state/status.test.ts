import { expect, it } from 'vitest'
import type { OutputStatus, SourceStatus, TopologyDocument } from '../api/schema'
import { statusOf } from './status'
import { merged } from './topology'
import { nodeOf } from './topology-node'

function sourceOf(name: string, lines: number): SourceStatus {
  return {
    book: {
      name,
      type: 'file',
      streams: 1,
      book: {
        lines,
        records: lines,
        joined: 0,
        discarded: {},
        malformed: 0,
        truncated: 0,
        bytes_read: 0,
        bytes_abandoned: {},
      },
      unaccounted_lines: 0,
    },
    files: 1,
    unreadable_files: 0,
    lag_seconds: 0,
    blocked: false,
    blocked_seconds: 0,
    errors: 0,
    cpu_seconds: 0,
  }
}

function outputOf(name: string, active: boolean): OutputStatus {
  return {
    book: {
      name,
      type: active ? 'http' : '',
      active,
      when_full: 'block',
      book: { routed: 5, delivered: 5, discarded: {}, dead_lettered: 0, resent: 0 },
      in_flight: 0,
      taken: 0,
      pending_bytes: 0,
      buffer_bytes_max: 1,
      lag_seconds: 0,
      blocking: false,
      unaccounted_records: 0,
    },
    failing: false,
    requests: 1,
    retries: 0,
    sent_bytes: 0,
    in_flight_requests: 0,
    concurrency_limit: 1,
    service_seconds: 0,
    queueing_seconds: 0,
    batches: 1,
    errors: 0,
    cpu_seconds: 0,
  }
}

const snapshot: TopologyDocument = {
  schema: 'weir.topology.v1',
  time: '',
  time_unix_ns: 5e9,
  process: { version: '1.2.3', started_unix_ns: 1e9, cpu_seconds: 2, resident_bytes: 3 },
  health: { status: 'ok', reasons: [] },
  nodes: [
    nodeOf('source:a', 'source', { source: sourceOf('a', 7) }),
    nodeOf('source:b', 'source', { source: sourceOf('b', 1) }),
    nodeOf('rules', 'rules'),
    nodeOf('output:x', 'output', { output: outputOf('x', true) }),
  ],
  edges: [],
  inactive: [outputOf('gone', false)],
}

it('the status has the books of all sources and outputs, and the figures of the process', () => {
  const status = statusOf(snapshot)
  expect(status.sources.map(({ book }) => [book.name, book.book.lines])).toEqual([
    ['a', 7],
    ['b', 1],
  ])
  expect(status.outputs.map(({ book }) => book.name)).toEqual(['x', 'gone'])
  const { version, uptime_seconds, cpu_seconds, resident_bytes, journal } = status
  expect([version, uptime_seconds, cpu_seconds, resident_bytes]).toEqual(['1.2.3', 4, 2, 3])
  expect(journal).toBeUndefined()
})

it('a change has what differs, and the rest of the status stays', () => {
  const empty = { time: '', nodes: [], edges: [], removed: [] }
  const later = merged(snapshot, { ...empty, time_unix_ns: 6e9 })
  expect(statusOf(later)).toEqual({
    ...statusOf(snapshot),
    time_unix_ns: 6e9,
    uptime_seconds: 5,
  })
  const health = { status: 'failing', reasons: [] }
  const process = { ...snapshot.process, resident_bytes: 9 }
  const nodes = [nodeOf('source:a', 'source', { source: sourceOf('a', 8) })]
  const last = merged(later, { ...empty, time_unix_ns: 7e9, process, health, nodes, inactive: [] })
  expect(last.health).toBe(health)
  const status = statusOf(last)
  expect(status.sources.map(({ book }) => book.book.lines)).toEqual([8, 1])
  expect([status.resident_bytes, status.outputs.length]).toEqual([9, 1])
})
