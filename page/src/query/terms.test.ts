import { describe, expect, it } from 'vitest'
import { quoteKey, quoteValue, unquote, unquoteKey } from './quote'
import { scan } from './scan'
import { offsetOfByte } from './span'
import {
  markedWords,
  parseTerms,
  stateOf,
  withOnly,
  withoutField,
  withRange,
  withTerm,
  withValue,
} from './terms'

const kinds = (query: string) =>
  scan(query).map((token) => [query.slice(token.from, token.to), token.kind])

describe('tokens of an expression', () => {
  it('cover all of it', () => {
    for (const query of [
      'a:(b OR "c d") -/x y/i @n:[1 TO 2}',
      '"open',
      'x\\',
      ')(',
      '@a:>=1.5ms',
    ]) {
      expect(
        scan(query)
          .map((token) => query.slice(token.from, token.to))
          .join(''),
      ).toBe(query)
    }
  })

  it('tell keys, comparisons and numbers apart', () => {
    expect(kinds('@duration:>300ms')).toEqual([
      ['@duration:', 'key'],
      ['>', 'comparison'],
      ['300ms', 'number'],
    ])
  })

  it('take a slash for a regular expression only when the next one ends the value', () => {
    expect(kinds('@path:/api/v1')[1]).toEqual(['/api/v1', 'text'])
    expect(kinds('/time(d )?out/i')).toEqual([['/time(d )?out/i', 'regex']])
  })
})

describe('values', () => {
  it('are quoted when they would mean something else', () => {
    expect(quoteValue('web-1')).toBe('web-1')
    expect(quoteValue('timed out')).toBe('"timed out"')
    expect(quoteValue('say "hi" \\')).toBe('"say \\"hi\\" \\\\"')
    expect(quoteValue('AND')).toBe('"AND"')
    expect(quoteValue('/api/')).toBe('"/api/"')
    expect(quoteValue('-1x')).toBe('"-1x"')
    expect(quoteValue('200ms')).toBe('"200ms"')
    expect(quoteValue('')).toBe('""')
    expect(quoteValue(500)).toBe('500')
  })

  it('come back as they were', () => {
    for (const value of ['a', 'a b', 'C:\\temp', 'say "hi"', 'x*y', '(x)', '[1', '']) {
      expect(unquote(quoteValue(value))).toBe(value)
    }
  })
})

describe('clicking on values', () => {
  it('adds a term, then a further value to it', () => {
    const one = withValue('error', 'service', 'web', 'included')
    expect(one).toBe('error service:web')
    expect(withValue(one, 'service', 'api', 'included')).toBe('error service:(web OR api)')
  })

  it('takes a value out again', () => {
    expect(withValue('service:(web OR api) x', 'service', 'web', undefined)).toBe('service:api x')
    expect(withValue('service:web x', 'service', 'web', undefined)).toBe('x')
  })

  it('turns what was asked for into what is left out', () => {
    expect(withValue('service:web', 'service', 'web', 'excluded')).toBe('-service:web')
    expect(withValue('NOT service:web', 'service', 'api', 'excluded')).toBe('-service:(web OR api)')
  })

  it('keeps an alternative at the top together', () => {
    expect(withValue('a OR b', 'service', 'web', 'included')).toBe('(a OR b) service:web')
  })

  it('replaces the others of a field', () => {
    expect(withOnly('x service:(web OR api)', 'service', 'db')).toBe('x service:db')
    expect(withoutField('x service:web -service:api', 'service')).toBe('x')
  })

  it('sets a range in place of the one before', () => {
    expect(withRange('x @d:>=5', '@d', '1ms', '2ms')).toBe('x @d:[1ms TO 2ms]')
    expect(withRange('x @d:[1 TO 2]', '@d', '', '')).toBe('x')
  })

  it('knows what is asked for', () => {
    const terms = parseTerms('service:(web OR "a b") -host:h')
    expect(stateOf(terms, 'service', 'a b')).toBe('included')
    expect(stateOf(terms, 'host', 'h')).toBe('excluded')
    expect(stateOf(terms, 'host', 'x')).toBeUndefined()
  })

  it('adds a written term once', () => {
    expect(withTerm('a', '"x y"')).toBe('a "x y"')
    expect(withTerm('a "x y"', '"x y"')).toBe('a "x y"')
  })
})

it('words of the message are marked, others not', () => {
  expect(markedWords('error "timed out" service:web -info @a:b message:slow')).toEqual([
    'error',
    'timed out',
    'slow',
  ])
})

it('places are counted in bytes by weir', () => {
  expect(offsetOfByte('é:(', 2)).toBe(1)
  expect(offsetOfByte('😀x', 4)).toBe(2)
  expect(offsetOfByte('ab', 9)).toBe(2)
})

it('a name of a field is written as weir writes it, and read back', () => {
  const names = {
    '@http.status_code': '@http.status_code',
    '@colon:key': '@colon\\:key',
    '@with space': '@with\\ space',
    '@back\\slash': '@back\\\\slash',
    '@a,b=c': '@a\\,b\\=c',
    '@größe/日': '@größe/日',
    '-minus': '\\-minus',
  }
  for (const [name, written] of Object.entries(names)) {
    expect(quoteKey(name)).toBe(written)
    expect(unquoteKey(written)).toBe(name)
  }
  expect(withValue('', '@colon:key', 'v', 'included')).toBe('@colon\\:key:v')
})
