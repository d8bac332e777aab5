import { expect, it } from 'vitest'
import type { StatusDocument } from '../api/schema'
import { lossOf, rateOf, totalsOf } from './figures'
import { topologyOf } from './topology'

function documentOf(lines: number, at: number, blocking = false): StatusDocument {
  const book = {
    lines,
    records: lines - 2,
    joined: 0,
    discarded: { rule: 2 },
    malformed: 0,
    truncated: 0,
  }
  return {
    schema: 'weir.status.v1',
    version: '0',
    time: '',
    time_unix_ns: at * 1e9,
    uptime_seconds: at,
    cpu_seconds: at / 10,
    resident_bytes: 1,
    health: {},
    journal: { disk_bytes: 1, disk_bytes_max: 4 },
    sources: [
      {
        book: {
          name: 'in',
          type: 'file',
          streams: 1,
          book: { ...book, bytes_read: 0, bytes_abandoned: {} },
          unaccounted_lines: 0,
        },
        files: 1,
        unreadable_files: 0,
        lag_seconds: 0,
        blocked: blocking,
        blocked_seconds: 0,
        errors: 0,
        cpu_seconds: 0,
      },
    ],
    outputs: [
      {
        book: {
          name: 'out',
          type: 'http',
          active: true,
          when_full: 'block',
          book: {
            routed: 10,
            delivered: 5,
            discarded: { buffer_full: 3 },
            dead_lettered: 1,
            resent: 0,
          },
          in_flight: 1,
          taken: 1,
          pending_bytes: 90,
          buffer_bytes_max: 100,
          lag_seconds: 1,
          blocking,
          unaccounted_records: 0,
        },
        failing: false,
        requests: 0,
        retries: 0,
        sent_bytes: 0,
        in_flight_requests: 0,
        concurrency_limit: 0,
        service_seconds: 0,
        queueing_seconds: 0,
        batches: 0,
        errors: 0,
        cpu_seconds: 0,
      },
    ],
  }
}

it('what somebody chose to discard is no loss', () => {
  const loss = lossOf({ rule: 5, buffer_full: 2, rejected: 0 })
  expect([loss.lost, loss.chosen]).toEqual([2, 5])
  expect(loss.reasons.map((one) => one.reason)).toEqual(['buffer_full', 'rule'])
})

it('totals add up over sources and outputs', () => {
  expect(totalsOf(documentOf(100, 1))).toMatchObject({
    taken: 98,
    lost: 3,
    deadLettered: 1,
    balanced: true,
  })
})

it('a rate is growth over the time between two looks', () => {
  const rate = rateOf(
    documentOf(100, 1),
    documentOf(300, 3),
    (one) => one.sources[0]?.book.book.lines,
  )
  expect(rate).toBe(100)
  expect(rateOf(undefined, documentOf(1, 1), () => 1)).toBeUndefined()
})

it('back-pressure is drawn from the full output to the source that it stops', () => {
  const found = topologyOf(documentOf(10, 1, true), undefined)
  expect(found.chain).toBe('out is full and blocks in')
  expect(found.edges.every((edge) => edge.blocked)).toBe(true)
  expect(topologyOf(documentOf(10, 1), undefined).chain).toBeUndefined()
})

it('a source that lags while an output blocks is taken to be blocked by it', () => {
  const document = documentOf(10, 1, true)
  const [source] = document.sources
  if (!source) throw new Error('there is a source')
  document.sources = [{ ...source, blocked: false, lag_seconds: 60 }]
  expect(topologyOf(document, undefined).chain).toBe('out is full and blocks in')
  document.sources = [{ ...source, blocked: false, lag_seconds: 0 }]
  expect(topologyOf(document, undefined).chain).toBe('out is full and blocks what feeds it')
})

it('draws what lags behind the drains that it was moved from', () => {
  const document = documentOf(10, 1)
  const [out] = document.outputs
  if (!out) throw new Error('there is an output')
  const named = (name: string) => ({ ...out, book: { ...out.book, name, active: true } })
  document.outputs = ['store', 'drains', 'drains/lagging'].map(named)
  const { columns, edges } = topologyOf(document, undefined)
  expect(columns.at(-1)?.map((node) => node.name)).toEqual(['drains/lagging'])
  expect(columns.at(-2)?.map((node) => node.name)).toEqual(['store', 'drains'])
  const behind = edges.filter((edge) => edge.to === 'output:drains/lagging')
  expect(behind.map((edge) => edge.from)).toEqual(['output:drains'])
})
