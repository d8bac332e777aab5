import { expect, it } from 'vitest'
import type { OutputStatus } from '../api/schema'
import { hasPassed } from './path'

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
