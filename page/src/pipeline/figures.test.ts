import { expect, it } from 'vitest'
import type { Status } from '../state/status'
import { lossOf, rateOf, totalsOf } from './figures'

function documentOf(lines: number, at: number): Status {
  const book = {
    lines,
    records: lines - 2,
    joined: 0,
    discarded: { rule: 2 },
    malformed: 0,
    truncated: 0,
  }
  return {
    version: '0',
    time: '',
    time_unix_ns: at * 1e9,
    uptime_seconds: at,
    cpu_seconds: at / 10,
    resident_bytes: 1,
    journal: {
      ring_bytes: 0,
      ring_bytes_max: 8,
      disk_bytes: 1,
      disk_bytes_max: 4,
      segments: 1,
      frames_written: 1,
      frames_compacted: 0,
      frames_merged: 0,
      flushes: 1,
      recovery: {
        frames: 0,
        frame_bytes: 0,
        damaged_bytes: 0,
        torn_bytes: 0,
        set_aside: [],
        damaged_cursor_records: 0,
        lost_bytes: 0,
        lost: [],
      },
    },
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
        blocked: false,
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
          blocking: false,
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
