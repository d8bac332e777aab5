import { afterEach, expect, it, vi } from 'vitest'
import { jsonOf, parseExact } from './exact'

afterEach(() => vi.restoreAllMocks())

/** What browsers do that tell a reviver how a number was written. */
function withSources(text: string): void {
  const parse = JSON.parse
  vi.spyOn(JSON, 'parse').mockImplementation((json, reviver) =>
    parse(json, (key, value) =>
      (reviver as (...arguments_: unknown[]) => unknown)(key, value, { source: text }),
    ),
  )
}

it('an integer beyond 2^53 keeps its digits', () => {
  withSources('1234567890123456789')
  expect(parseExact('{"id":1234567890123456789}')).toEqual({ id: 1234567890123456789n })
  expect(parseExact('{"lag_ns":1234567890123456789}')).toEqual({ lag_ns: 1234567890123456800 })
})

it('other numbers stay numbers', () => {
  expect(parseExact('[1,-2.5,1e300,9007199254740991]')).toEqual([1, -2.5, 1e300, 9007199254740991])
})

it('a browser that does not tell rounds', () => {
  expect(parseExact('[1234567890123456789]')).toEqual([1234567890123456800])
})

it('values are written as JSON', () => {
  expect(jsonOf({ a: [1, 'b'] })).toBe('{"a":[1,"b"]}')
  expect(jsonOf(undefined)).toBe('null')
  expect(jsonOf([1234567890123456789n])).toMatch(/^\["?1234567890123456789"?\]$/)
})
