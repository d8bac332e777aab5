import { expect, it } from 'vitest'
import { nanosecondsBetween } from './nanoseconds'

it('the time between two moments is exact to the nanosecond, in both directions', () => {
  const [event, arrival] = ['2026-11-26T16:03:12.580293275Z', '2026-11-26T16:03:13.94130361Z']
  expect(nanosecondsBetween(event, arrival)).toBe(1_361_010_335)
  expect(nanosecondsBetween(arrival, event)).toBe(-1_361_010_335)
  expect(nanosecondsBetween('2026-11-26T16:03:12Z', '2026-11-26T17:03:12.000000001+01:00')).toBe(1)
})

it('what is no time gives none', () => {
  expect(nanosecondsBetween('', '2026-11-26T16:03:12Z')).toBeUndefined()
  expect(nanosecondsBetween(undefined, 'yesterday')).toBeUndefined()
})
