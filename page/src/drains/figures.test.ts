import { expect, it } from 'vitest'
import type { DrainEntry, DrainsDocument } from '../api/schema'
import { drainTotals, inOrder, lagText, matches, ratesOf, stateOf } from './figures'

function drain(id: string, changes: Partial<DrainEntry> = {}): DrainEntry {
  const book = { routed: 9, delivered: 5, discarded: {}, waiting: 4, moved: 0, recovered: 0 }
  return {
    id,
    origin: 'added',
    selects: `app ${id}`,
    url: `syslog://${id}.example:514`,
    state: 'sending',
    error: null,
    failing_seconds: 0,
    lag_seconds: 0,
    unaccounted: 0,
    ...changes,
    book: { ...book, ...changes.book },
  }
}

function documentOf(...drains: DrainEntry[]): DrainsDocument {
  return { schema: 'weir.drains.v1', time_unix_ns: 0, drains, providers: [], balanced: true }
}

it('computes rates between two looks, and none over a restart or for a new drain', () => {
  const book = (delivered: number) => ({ book: { ...drain('a').book, delivered } })
  const before = documentOf(drain('a', book(10)), drain('b', book(50)))
  const later = documentOf(drain('a', book(30)), drain('b', book(3)), drain('c', book(7)))
  const rates = ratesOf(before, { ...later, time_unix_ns: 2e9 })
  expect([...rates]).toEqual([['a', 10]])
  expect(ratesOf(undefined, before).size).toBe(0)
})

it('tells how long the oldest record has waited', () => {
  expect(lagText(drain('a', { lag_seconds: 90 }))).toBe('oldest 1.5 min')
  expect(lagText(drain('a', { lag_seconds: 0.2 }))).toBe('')
  expect(lagText(drain('a', { lag_seconds: null }))).toBe('oldest not yet known')
})

it('counts losses, but not what was discarded on purpose', () => {
  const book = { ...drain('a').book, discarded: { expired: 2, rate_limit: 9 } }
  const totals = drainTotals(documentOf(drain('a', { book }), drain('b', { state: 'failing' })))
  expect(totals).toEqual({ delivered: 10, waiting: 8, lost: 2, troubled: 1, balanced: true })
})

it('a drain that has sent since the last look is not idle', () => {
  const idle = drain('a', { state: 'idle' })
  expect(stateOf(idle).text).toBe('idle')
  expect(stateOf(idle, 0.5)).toEqual({ tone: 'good', text: 'sending' })
})

it('lists trouble first and finds by any text', () => {
  const failing = drain('z', { state: 'failing', error: 'connection refused', failing_seconds: 90 })
  const all = [drain('a'), drain('m', { state: 'lagging' }), failing]
  expect(inOrder(all).map((one) => one.id)).toEqual(['z', 'm', 'a'])
  expect(stateOf(failing)).toEqual({ tone: 'bad', text: 'failing for 1.5 min' })
  expect(matches(failing, ' REFUSED')).toBe(true)
  expect(matches(failing, 'app a')).toBe(false)
})
