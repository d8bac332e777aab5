import { expect, it } from 'vitest'
import type { Status } from '../state/status'
import {
  budgetLeft,
  bufferLasts,
  type Delivery,
  deliveriesOf,
  ratioOf,
  ratioText,
} from './delivery'

const one: Delivery = {
  name: 'out',
  kind: 'output',
  received: 0,
  delivered: 0,
  lost: 0,
  chosen: 0,
  waiting: 0,
  searchable: 0,
  late: 0,
  balanced: true,
}

it('never rounds a loss away', () => {
  expect(ratioOf(one)).toBeUndefined()
  expect(ratioText(one)).toBe('–')
  expect(ratioText({ ...one, delivered: 7 })).toBe('100 %')
  expect(ratioText({ ...one, delivered: 999_999, lost: 1 })).toBe('99.9999 %')
  expect(ratioText({ ...one, delivered: 3, lost: 1 })).toBe('75 %')
  expect(ratioText({ ...one, delivered: 1e12, lost: 1 })).not.toMatch(/^100/)
})

it('counts what was moved or unwanted as settled, and a rule as a choice', () => {
  const book = {
    routed: 20,
    delivered: 5,
    discarded: { expired: 2, unrouted: 4 },
    dead_lettered: 1,
    resent: 0,
    moved: 3,
    unbound: 2,
  }
  const waits = { type: 'store', in_flight: 3, taken: 1, lag_seconds: 2 }
  const output = { book: { name: 'o', book, ...waits, unaccounted_records: 0 } }
  const document = { sources: [], outputs: [output] } as unknown as Status
  expect(deliveriesOf(document)[0]).toEqual({
    ...one,
    name: 'o',
    received: 20,
    delivered: 10,
    lost: 3,
    chosen: 4,
    waiting: 3,
    searchable: 1,
    late: 2,
  })
})

it('an error budget is spent by what is lost, and can be overspent', () => {
  expect(budgetLeft(one, 0.999)).toBeUndefined()
  expect(budgetLeft({ ...one, delivered: 1_000 }, 0.999)).toBe(1)
  expect(budgetLeft({ ...one, delivered: 9_995, lost: 5 }, 0.999)).toBeCloseTo(0.5)
  expect(budgetLeft({ ...one, delivered: 970, lost: 30 }, 0.99)).toBeCloseTo(-2)
})

it('says how long a buffer lasts only at a rate', () => {
  expect(bufferLasts(100, 10)).toBe(10)
  expect(bufferLasts(-1, 10)).toBe(0)
  expect(bufferLasts(100, 0)).toBeUndefined()
})
