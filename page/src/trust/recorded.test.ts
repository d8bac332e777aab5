import { expect, it } from 'vitest'
import type { StepEntry } from '../api/schema'
import { lossByRate, rangeText, ranShare, shorterThanNamed } from './recorded'

const step = (running_seconds: number, received: number, lost = 0): StepEntry => ({
  from: '2026-01-01T00:00:00Z',
  to: '2026-01-01T00:01:00Z',
  running_seconds,
  received,
  delivered: received - lost,
  lost,
  discarded: 0,
})

it('loss stands at the rate at which it happened', () => {
  const found = lossByRate([
    step(60, 600),
    step(60, 900),
    step(60, 60_000, 600),
    step(60, 30),
    step(60, 0),
    step(2, 90_000, 9_000),
  ])
  expect(found.map((one) => [rangeText(one), one.time, one.received, one.lost])).toEqual([
    ['below 1/s', 60, 30, 0],
    ['10 to 20/s', 120, 1_500, 0],
    ['1k to 2k/s', 60, 60_000, 600],
  ])
})

it('a rate at a bound is in the range above it', () => {
  for (const [rate, text] of [
    [1, '1 to 2/s'],
    [2, '2 to 5/s'],
    [4.99, '2 to 5/s'],
    [5, '5 to 10/s'],
    [1_000, '1k to 2k/s'],
    [99_999, '50k to 100k/s'],
  ] as const) {
    const [found] = lossByRate([step(100, rate * 100)])
    expect(found && rangeText(found)).toBe(text)
  }
})

it('a window that was recorded for a shorter time says so', () => {
  const time = '2026-01-01T02:00:00Z'
  expect(shorterThanNamed('6h', '2026-01-01T00:00:00Z', time)).toBe(7_200)
  expect(shorterThanNamed('1h', '2026-01-01T00:59:30Z', time)).toBeUndefined()
  expect(ranShare(3_600, '2026-01-01T00:00:00Z', time)).toBe(0.5)
  expect(ranShare(0, time, time)).toBeUndefined()
})
