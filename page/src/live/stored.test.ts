import { expect, it } from 'vitest'
import type { LogEntry } from '../api/schema'
import { readRow } from './row'
import { isSame, questionOf } from './stored'

const row = readRow(
  '7-1',
  JSON.stringify({
    timestamp: '2026-11-27T02:45:09.075057408Z',
    body: '{"message":"placed","service":"payment gate"}',
    source: 'shop',
    stream: 'e93c',
    position: '0:510121',
  }),
)

function stored(changes: Partial<NonNullable<LogEntry['weir']>>, message = 'placed'): LogEntry {
  const weir = {
    timestamp: '2026-11-27T02:45:09.075057408Z',
    stream: 'e93c',
    position: '0:510121',
    ...changes,
  }
  return {
    id: 'abc',
    type: 'log',
    attributes: { timestamp: weir.timestamp, tags: [], attributes: {}, message },
    weir,
  } as LogEntry
}

it('a row is looked for in its millisecond, by its source and service', () => {
  expect(questionOf(row)).toEqual({
    query: 'source:shop service:"payment gate"',
    from: '2026-11-27T02:45:09.075Z',
    to: '2026-11-27T02:45:09.076Z',
  })
})

it('a row is the record at the same place of the same stream', () => {
  expect(isSame(stored({}), row)).toBe(true)
  expect(isSame(stored({ position: '0:510407' }), row)).toBe(false)
  expect(isSame(stored({ stream: 'b702' }), row)).toBe(false)
  expect(isSame(stored({}, 'another of the same batch'), row)).toBe(false)
})
