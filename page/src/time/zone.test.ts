import { expect, it } from 'vitest'
import { midnight, momentOf, wallClock } from './zone'

const berlin = 'Europe/Berlin'
const at = (text: string) => Date.parse(text)
const shown = (time: number) => new Date(time).toISOString()

it('clocks of a zone go with its summer time', () => {
  expect(shown(wallClock(at('2026-07-01T10:00:00.250Z'), berlin))).toBe('2026-07-01T12:00:00.250Z')
  expect(shown(wallClock(at('2026-12-01T10:00:00Z'), berlin))).toBe('2026-12-01T11:00:00.000Z')
})

it('what clocks show leads back to the moment, the first of two', () => {
  for (const text of ['2026-07-01T12:00:00Z', '2026-12-01T00:30:00Z', '2026-03-29T04:00:00Z']) {
    expect(shown(wallClock(momentOf(at(text), berlin), berlin))).toBe(shown(at(text)))
  }
  expect(shown(momentOf(at('2026-10-25T02:30:00Z'), berlin))).toBe('2026-10-25T00:30:00.000Z')
})

it('days and weeks begin at midnight of the zone', () => {
  expect(shown(midnight(at('2026-11-24T23:30:00Z'), berlin, false))).toBe(
    '2026-11-24T23:00:00.000Z',
  )
  expect(shown(midnight(at('2026-11-26T12:00:00Z'), 'UTC', true))).toBe('2026-11-23T00:00:00.000Z')
})
