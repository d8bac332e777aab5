import { expect, it } from 'vitest'
import { marked, oneLine, partsOf, plainText, wordsExpression } from './log-text'

it('colors of terminals become styles', () => {
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

it('the characters that the command line escapes become signs, and only those', () => {
  const escaped =
    '\u00ad\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0\u200b\ufeff\u061c\u200e\u200f\u2028\u2029' +
    '\u202a\u202e\u2060\u206f\u2800\u180b\u180f\ufe00\ufe0f\ufff0\ufffc\u0000\u001f\u007f\u009f' +
    '\u{1bca0}\u{1d173}\u{1d17a}\u{e0000}\u{e0041}\u{e00ff}\u{e0100}\u{e01ef}\u{e01f0}\u{e0fff}'
  for (const char of escaped) {
    const [part, ...others] = partsOf(char)
    expect(part?.kind, char.codePointAt(0)?.toString(16)).toBe('sign')
    expect(part?.text).toMatch(/^[\x20-\x7e\u2400-\u2421]+$/)
    expect(others).toEqual([])
  }
  const kept = 'a\té \u{1f468}\u200d\u{1f467} न\u200dम \u2010\u2027\u202f\u205f\ufffd'
  expect(partsOf(kept)).toEqual([{ text: kept }])
})

it('signs are in brackets where there is only text', () => {
  expect(plainText('web')).toBe('web')
  expect(plainText('a\u202eb\u{e0041}\u001b[31mc')).toBe('a[RLO]b[U+E0041]c')
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
