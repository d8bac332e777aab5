import { expect, it } from 'vitest'
import { meanOf } from './history'

it('a rate is the mean over the last five seconds, however long each look was', () => {
  expect(meanOf([100, 100, 100, 100, 200, 100], [1, 1, 1, 1, 1, 1])).toBe(120)
  expect(meanOf([900, 100, 200], [1, 4, 4])).toBe(150)
  expect(meanOf([900, 50], [1, 30])).toBe(50)
  expect(meanOf([7], [1])).toBe(7)
  expect(meanOf([], [])).toBeUndefined()
})
