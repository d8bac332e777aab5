import { expect, it } from 'vitest'
import type { LogEntry } from '../api/schema'
import { waterfallOf } from './trace'

function record(service: string, timestamp: string, attributes = {}): LogEntry {
  return { id: service, type: 'log', attributes: { timestamp, service, tags: [], attributes } }
}

it('a bar ends when its record was written, and the first begins the trace', () => {
  const found = waterfallOf([
    record('api', '2026-01-01T00:00:00.090Z', { duration: 50e6 }),
    record('web', '2026-01-01T00:00:00.100Z', { duration: 100e6 }),
    record('note', '2026-01-01T00:00:00.060Z'),
  ])
  expect(found.length).toBe(100)
  expect(found.bars.map((bar) => [bar.service, bar.begin, bar.length])).toEqual([
    ['web', 0, 100],
    ['api', 40, 50],
    ['note', 60, 0],
  ])
})

it('a bar is as long as the record says, in whatever unit', () => {
  const lengthOf = (attributes: Record<string, unknown>) =>
    waterfallOf([record('web', '2026-01-01T00:00:00Z', attributes)]).bars[0]?.length
  expect(lengthOf({ duration: 5e6 })).toBe(5)
  expect(lengthOf({ duration_ms: 5 })).toBe(5)
  expect(lengthOf({ request_time: '0.25' })).toBe(250)
  expect(lengthOf({ http: { elapsed_us: 3_000 } })).toBe(3)
  expect(lengthOf({ duration_class: 5, score: 7 })).toBe(0)
})
