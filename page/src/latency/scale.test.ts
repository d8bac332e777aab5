import { expect, it } from 'vitest'
import { decadesOf, indexOf, stepsOf } from './scale'

it('powers of ten reach from the least to the greatest', () => {
  expect(decadesOf(3, 541).map((one) => one.low)).toEqual([1, 10, 100])
  expect(decadesOf(0, 541)).toHaveLength(5)
  expect(decadesOf(1e-9, 1e9)).toHaveLength(5)
  expect(decadesOf(5, 5)).toEqual([{ low: 1, step: 1 }])
})

it('steps follow on each other without holes', () => {
  const steps = stepsOf(decadesOf(0.02, 7))
  expect(steps[0]?.low).toBe(0)
  for (let at = 1; at < steps.length; at += 1) expect(steps[at]?.low).toBe(steps[at - 1]?.high)
  expect(indexOf(steps, 0.3)).toBe(steps.findIndex((step) => step.low === 0.3))
})
