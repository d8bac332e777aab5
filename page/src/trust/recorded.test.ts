import { expect, it } from 'vitest'
import { lossySteps, rangeText, ranShare, shorterThanNamed } from './recorded'

it('a range of rates is told in words', () => {
  const entry = { running_seconds: 60, received: 1, delivered: 1, lost: 0 }
  expect(rangeText({ ...entry, from: 0, to: 1 })).toBe('below 1/s')
  expect(rangeText({ ...entry, from: 50_000, to: 100_000 })).toBe('50k to 100k/s')
})

it('a window that was recorded for a shorter time says so', () => {
  const time = '2026-01-01T02:00:00Z'
  expect(shorterThanNamed('6h', '2026-01-01T00:00:00Z', time)).toBe(7_200)
  expect(shorterThanNamed('1h', '2026-01-01T00:59:30Z', time)).toBeUndefined()
  expect(ranShare(3_600, '2026-01-01T00:00:00Z', time)).toBe(0.5)
  expect(ranShare(0, time, time)).toBeUndefined()
})

it('intervals with losses are listed, the latest first', () => {
  const step = (from: string, lost: number) => ({
    from,
    to: '',
    running_seconds: 60,
    received: 5,
    delivered: 5 - lost,
    discarded: 0,
    lost,
  })
  const steps = [step('a', 1), step('b', 0), step('c', 2)]
  expect(lossySteps(steps).map(({ from }) => from)).toEqual(['c', 'a'])
})
