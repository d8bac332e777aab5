import { expect, it } from 'vitest'
import type { OutputStatus } from '../api/schema'
import type { Status } from '../state/status'
import { hasPassed, outcomeAt } from './path'

const output = (in_flight: number, taken: number, lag_seconds: number, type = 'splunk_hec') =>
  ({ book: { in_flight, taken, lag_seconds, type } }) as OutputStatus
const read = { time: '2026-01-01T01:00:00Z', uptime_seconds: 3_600 }

it('a record has passed an output where nothing waits, or only what came later', () => {
  expect(hasPassed(output(0, 0, 0), '2026-01-01T00:59:00Z', read)).toBe(true)
  expect(hasPassed(output(5, 5, 0, 'store'), '2026-01-01T00:59:00Z', read)).toBe(true)
  expect(hasPassed(output(5, 0, 10), '2026-01-01T00:59:00Z', read)).toBe(true)
})

it('what is not certain is not said', () => {
  expect(hasPassed(output(5, 0, 120), '2026-01-01T00:59:00Z', read)).toBe(false)
  expect(hasPassed(output(5, 5, 120), '2026-01-01T00:59:00Z', read)).toBe(false)
  expect(hasPassed(output(5, 0, 0), '2026-01-01T00:59:00Z', read)).toBe(false)
  expect(hasPassed(output(5, 0, 10), '2025-12-31T00:00:00Z', read)).toBe(false)
  expect(hasPassed(output(0, 0, 0), '2026-01-01T00:59:59.500Z', read)).toBe(false)
  expect(hasPassed(output(0, 0, 0), undefined, read)).toBe(false)
})

it('the outcome is certain only where the books leave no other way', () => {
  const counts = { routed: 7, discarded: {}, dead_lettered: 0, unbound: 0 }
  const at = (book: object, in_flight = 0) => {
    const state = { in_flight, taken: 0, lag_seconds: 0, type: 'http' }
    const document = { ...read, sources: [{ book: { book: { records: 7 } } }] }
    return outcomeAt(
      { book: { ...state, book: { ...counts, ...book } } } as OutputStatus,
      '2026-01-01T00:59:00Z',
      document as Status,
    )
  }
  expect(at({})).toBe('delivered')
  expect(at({ routed: 6 })).toBe('settled')
  expect(at({ discarded: { expired: 1 } })).toBe('settled')
  expect(at({ dead_lettered: 1 })).toBe('settled')
  expect(at({ routed: 0 })).toBe('not sent')
  expect(at({}, 3)).toBe('waiting')
})
