import { expect, it } from 'vitest'
import type { AggregateAnswer, StepEntry } from '../api/schema'
import { intakeOf, percentileOf, plansOf, readIntake } from './planning-table'

const minute = 60_000
const counted = (values: number[]) => {
  const c0 = values.map((value, at) => ({ time: new Date(at * minute).toISOString(), value }))
  return { data: { buckets: [{ by: {}, computes: { c0 } }] } } as unknown as AggregateAnswer
}

it('stretches that are not whole are left out, and empty ones count', () => {
  const found = intakeOf(counted([6, 600, 0, 120, 6]), minute, 4.5 * minute)
  expect(found).toEqual({ rates: [0, 2, 10], step: 60, length: 180 })
  expect(intakeOf(counted([6]), minute, 5 * minute).rates).toEqual([])
  expect(intakeOf(counted([]), minute, 5 * minute).rates).toEqual([])
})

it('a percentile is a rate that there was', () => {
  const rates = Array.from({ length: 100 }, (_, at) => at + 1)
  expect(percentileOf(rates, 80)).toBe(80)
  expect(percentileOf([5], 99)).toBe(5)
  expect(percentileOf([], 99)).toBe(0)
})

it('machines are whole, and cost is compared with the 80th percentile', () => {
  const rates = Array.from({ length: 100 }, (_, at) => (at + 1) * 10)
  const plans = plansOf(rates, 400)
  expect(plans.find(({ name }) => name === '80 % of the time')).toMatchObject({
    rate: 800,
    machines: 2,
    cost: 1,
  })
  expect(plans.at(-1)).toEqual({ name: 'highest peak', rate: 1_000, machines: 3, cost: 1.5 })
  expect(plansOf(rates, 0)[0]).toMatchObject({ machines: undefined, cost: undefined })
})

it('without a store, readings tell the rates: an hour counts sixty times a minute', () => {
  const step = (to: string, running_seconds: number, received: number): StepEntry => {
    const counts = { received, delivered: received, lost: 0, discarded: 0 }
    return { from: to, to, running_seconds, ...counts }
  }
  const now = Date.parse('2026-01-20T00:00:00Z')
  const found = readIntake(
    [
      step('2026-01-02T00:00:00Z', 3_600, 1),
      step('2026-01-18T00:00:00Z', 3_600, 7_200),
      step('2026-01-19T23:58:00Z', 60, 600),
      step('2026-01-19T23:59:00Z', 60, 0),
      step('2026-01-20T00:00:00Z', 5, 1_000),
    ],
    now,
  )
  expect(found.rates).toEqual([0, ...Array.from({ length: 60 }, () => 2), 10])
  expect(found).toMatchObject({ step: undefined, length: 3_720 })
})
