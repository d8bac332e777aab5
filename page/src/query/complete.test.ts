import { describe, expect, it } from 'vitest'
import { operatorsOf, placeAt, unitsOf } from './complete'

const at = (text: string) => {
  const cursor = text.indexOf('|')
  return placeAt(text.replace('|', ''), cursor)
}

describe('the place of the cursor', () => {
  it('is a field where a term begins', () => {
    expect(at('|')).toEqual({ kind: 'field', from: 0, to: 0, prefix: '' })
    expect(at('error ser|')).toEqual({ kind: 'field', from: 6, to: 9, prefix: 'ser' })
    expect(at('-@ht|')).toEqual({ kind: 'field', from: 1, to: 4, prefix: '@ht' })
    expect(at('(serv|')).toEqual({ kind: 'field', from: 1, to: 5, prefix: 'serv' })
  })

  it('is a value behind a key', () => {
    expect(at('service:|')).toEqual({
      kind: 'value',
      from: 8,
      to: 8,
      prefix: '',
      field: 'service',
      compared: false,
    })
    expect(at('service:we|')).toMatchObject({
      kind: 'value',
      from: 8,
      prefix: 'we',
      field: 'service',
    })
    expect(at('@a:"x y|"')).toMatchObject({ kind: 'value', from: 3, prefix: 'x y', field: '@a' })
    expect(at('@n:>5|')).toMatchObject({ kind: 'value', from: 4, prefix: '5', field: '@n' })
  })

  it('is a value to compare with behind a comparison and in a range', () => {
    for (const text of ['@n:>|', '@n:>=5|', '@n:[1|', '@n:[1 TO 5|', '@n:{1 TO |', '(@n:>5|']) {
      expect(at(text), text).toMatchObject({ kind: 'value', field: '@n', compared: true })
    }
    for (const text of ['@n:5|', '@n:(1 OR 5|', '@m:>1 @n:5|']) {
      expect(at(text), text).toMatchObject({ field: '@n', compared: false })
    }
    expect(at('@n:[1 TO 2] @d|')).toMatchObject({ kind: 'field', prefix: '@d' })
  })

  it('is a value in a list of values', () => {
    expect(at('service:(web OR a|')).toMatchObject({ kind: 'value', prefix: 'a', field: 'service' })
    expect(at('service:(web OR api) ho|')).toMatchObject({ kind: 'field', prefix: 'ho' })
  })
})

describe('brackets', () => {
  it('are closed in a suggestion, with the cursor between them', () => {
    const written = operatorsOf('@n').map(({ text, cursor }) => [text, cursor])
    expect(written).toEqual([
      ['*', undefined],
      ['()', 1],
      ['>', undefined],
      ['[ TO ]', 1],
    ])
  })
})

it('a number that is compared gets the units of its field', () => {
  const labels = (field: string, prefix: string) =>
    unitsOf({ field, prefix }).map(({ label }) => label)
  expect(labels('@took_ms', '3')).toEqual(['3ms', '3s', '3min', '3h', '3us', '3ns'])
  expect(labels('@took_ms', '1.5m')).toEqual(['1.5ms', '1.5min'])
  expect(labels('@sent_bytes', '4K')).toEqual(['4KiB'])
  expect(labels('@other', '3')).toEqual([])
  expect(labels('@took_ms', 'x')).toEqual([])
})
