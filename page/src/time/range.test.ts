import { describe, expect, it } from 'vitest'
import {
  isRelative,
  labelOf,
  readRange,
  readTime,
  resolve,
  resolveRange,
  shifted,
  validRange,
  zoomed,
} from './range'

const now = Date.parse('2026-11-24T12:00:00Z')
const utc = (time: string | undefined) => (time ? new Date(time).toISOString() : undefined)

describe('what people type as a range', () => {
  it('is a duration back from now', () => {
    for (const text of ['15m', 'now-15m', 'last 15 minutes', '-15m', '15 min']) {
      expect(readRange(text, now)).toEqual({ from: 'now-15m', to: 'now' })
    }
    expect(readRange('2 hours', now)).toEqual({ from: 'now-2h', to: 'now' })
    expect(readRange('yesterday', now)).toEqual({ from: 'now-1d/d', to: 'now/d' })
  })

  it('is two times', () => {
    const range = readRange('2026-11-24T10:00:00Z to 2026-11-24T11:00:00Z', now)
    expect(range).toEqual({ from: '2026-11-24T10:00:00.000Z', to: '2026-11-24T11:00:00.000Z' })
    expect(readRange('now-2h .. now-1h', now)).toEqual({ from: 'now-2h', to: 'now-1h' })
  })

  it('is a moment, with five minutes around it', () => {
    expect(readRange('1795521600', now)).toEqual({
      from: '2026-11-24T11:55:00.000Z',
      to: '2026-11-24T12:05:00.000Z',
    })
  })

  it('is nothing when it is no time', () => {
    for (const text of ['', 'soon', '12', 'error 500']) expect(readRange(text, now)).toBeUndefined()
  })
})

describe('a pasted time', () => {
  it('is read in any common form', () => {
    const expected = '2026-11-24T12:00:00.000Z'
    const forms = [
      '2026-11-24T12:00:00Z',
      '2026-11-24 12:00:00Z',
      '2026-11-24 12:00:00 UTC',
      '2026-11-24T13:00:00+01:00',
      '2026-11-24 13:00:00 +0100',
      '2026/11/24 12:00:00Z',
      '24/Nov/2026:13:00:00 +0100',
      '[24/Nov/2026:12:00:00 +0000]',
      '1795521600',
      '1795521600000',
      '1795521600000000000',
      'Tue, 24 Nov 2026 12:00:00 GMT',
    ]
    for (const form of forms) expect([form, utc(readTime(form, now))]).toEqual([form, expected])
  })

  it('keeps milliseconds behind a comma', () => {
    expect(readTime('2026-11-24 12:00:00,250Z', now)).toBe('2026-11-24T12:00:00.250Z')
  })
})

describe('ends of a range', () => {
  it('are relative to now', () => {
    expect(resolve('now-1h', now)).toBe(now - 3_600_000)
    expect(resolve('now-1h-30m', now)).toBe(now - 5_400_000)
    expect(resolve('now/h', now + 5)).toBe(now)
    expect(isRelative('now-1d/d')).toBe(true)
    expect(isRelative('now-x')).toBe(false)
  })

  it('that make no range become the default', () => {
    expect(resolveRange({ from: 'now', to: 'now-1h' }, now)).toEqual({
      from: now - 900_000,
      to: now,
    })
  })

  it('move and zoom', () => {
    const span = { from: now - 1_000, to: now }
    expect(shifted(span, -1)).toEqual({
      from: '2026-11-24T11:59:58.000Z',
      to: '2026-11-24T11:59:59.000Z',
    })
    expect(zoomed(span, 2)).toEqual({
      from: '2026-11-24T11:59:58.500Z',
      to: '2026-11-24T12:00:00.500Z',
    })
  })

  it('are named', () => {
    expect(labelOf({ from: 'now-15m', to: 'now' }, String)).toBe('Last 15 minutes')
    expect(labelOf({ from: 'now-90m', to: 'now' }, String)).toBe('Last 90m')
  })
})

it('what syslog, HTTP and log libraries write can be pasted', () => {
  const at = (text: string) => readTime(text, now, 'UTC')
  expect(at('Nov 24 11:58:00')).toBe('2026-11-24T11:58:00.000Z')
  expect(at('Dec  1 11:58:00')).toBe('2025-12-01T11:58:00.000Z')
  expect(at('Tue, 24 Nov 2026 11:58:00 GMT')).toBe('2026-11-24T11:58:00.000Z')
  const around = { from: '2026-11-24T11:53:00.250Z', to: '2026-11-24T12:03:00.250Z' }
  expect(readRange('2026-11-24 11:58:00,250', now, 'UTC')).toEqual(around)
  expect(readRange('2h ago', now, 'UTC')).toEqual({ from: 'now-2h', to: 'now' })
  expect(readRange('11:00, 11:30', now, 'UTC')).toEqual({
    from: '2026-11-24T11:00:00.000Z',
    to: '2026-11-24T11:30:00.000Z',
  })
})

it('a time without a zone is one of the zone that is chosen', () => {
  const zone = 'America/New_York'
  expect(readTime('2026-11-24 07:00', now, zone)).toBe('2026-11-24T12:00:00.000Z')
  expect(readTime('2026-11-24', now, zone)).toBe('2026-11-24T05:00:00.000Z')
  expect(readTime('07:00', now, zone)).toBe('2026-11-24T12:00:00.000Z')
  expect(readTime('24/Nov/2026:07:00:00', now, zone)).toBe('2026-11-24T12:00:00.000Z')
  expect(resolve('now/d', now, zone)).toBe(Date.parse('2026-11-24T05:00:00Z'))
})

it('in place of a range that is not valid stands the default', () => {
  const now = Date.parse('2026-11-27T12:00:00Z')
  const invalid = [
    ['abc', 'def'],
    ['now-20y', 'now'],
    ['now-1m', 'now-10m'],
    ['2026-11-27T12:00:00Z', '2026-11-27T12:00:00Z'],
  ]
  for (const [from = '', to = ''] of invalid) {
    expect(validRange({ from, to }, now)).toEqual({ from: 'now-15m', to: 'now' })
  }
  expect(validRange({ from: 'now-1h', to: 'now' }, now)).toEqual({ from: 'now-1h', to: 'now' })
})
