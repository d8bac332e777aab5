import { expect, it } from 'vitest'
import { marked, oneLine, partsOf, wordsExpression } from './log-text'

it('colours of terminals become styles', () => {
  expect(partsOf('\u001b[31mERROR\u001b[0m bad')).toEqual([
    { text: 'ERROR', kind: 'ansi-red' },
    { text: ' bad' },
  ])
})

it('other commands to a terminal vanish', () => {
  expect(partsOf('a\u001b[2Jb')).toEqual([{ text: 'a' }, { text: 'b' }])
})

it('control characters and marks of direction become signs', () => {
  expect(partsOf('a\u0000b\u202ec')).toEqual([
    { text: 'a' },
    { text: '␀', kind: 'sign' },
    { text: 'b' },
    { text: 'RLO', kind: 'sign' },
    { text: 'c' },
  ])
})

it('markup is text like any other', () => {
  expect(partsOf('<img src=x onerror=alert(1)>')).toEqual([
    { text: '<img src=x onerror=alert(1)>' },
  ])
})

it('whole words are marked, in any case', () => {
  const words = wordsExpression(['error', 'timed out'])
  expect(marked([{ text: 'Error: errors timed  out' }], words)).toEqual([
    { text: 'Error', kind: 'mark' },
    { text: ': errors ' },
    { text: 'timed  out', kind: 'mark' },
  ])
  expect(wordsExpression(['!!!'])).toBeUndefined()
})

it('a message in a row is one line of bounded length', () => {
  expect(oneLine('a\n  at b', 100)).toBe('a ⏎ at b')
  expect(oneLine('x'.repeat(20), 5)).toBe('xxxxx…')
})
