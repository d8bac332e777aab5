import { expect, it } from 'vitest'
import type { LogEntry } from '../api/schema'
import { waterfallOf } from './trace'

function record(service: string, timestamp: string, duration?: number): LogEntry {
  const attributes = duration === undefined ? {} : { duration }
  return { id: service, type: 'log', attributes: { timestamp, service, tags: [], attributes } }
}

it('a bar ends when its record was written, and the first begins the trace', () => {
  const found = waterfallOf([
    record('api', '2026-01-01T00:00:00.090Z', 50e6),
    record('web', '2026-01-01T00:00:00.100Z', 100e6),
    record('note', '2026-01-01T00:00:00.060Z'),
  ])
  expect(found.length).toBe(100)
  expect(found.bars.map((bar) => [bar.service, bar.begin, bar.length])).toEqual([
    ['web', 0, 100],
    ['api', 40, 50],
    ['note', 60, 0],
  ])
})
