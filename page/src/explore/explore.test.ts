import { describe, expect, it } from 'vitest'
import type { AggregateAnswer, FacetEntry, LogEntry } from '../api/schema'
import { shellWord } from './export-menu'
import { facetsByGroup } from './facets'
import { histogramOf } from './histogram'
import { phrasesOf } from './patterns'
import { readMeasures } from './question'
import { fieldOf, flatten, lineOf, pathIn, traceOf } from './record'

const record: LogEntry = {
  id: '1',
  type: 'log',
  attributes: {
    timestamp: '2026-01-01T00:00:00.000Z',
    service: 'web',
    status: 'error',
    message: 'no',
    tags: ['env:prod', 'urgent'],
    attributes: { http: { 'status.code': 500 }, a: { b: [1] }, request_id: 'r', none: {} },
  },
}

describe('a field of a record', () => {
  it('is found by its name in the language', () => {
    expect(fieldOf(record, 'service')).toBe('web')
    expect(fieldOf(record, 'env')).toBe('prod')
    expect(fieldOf(record, '@http.status.code')).toBe(500)
    expect(fieldOf(record, '@nothing')).toBeUndefined()
    expect(pathIn({ 'a.b': 1 }, 'a.b')).toBe(1)
  })

  it('is its lag if it has no attribute of that name', () => {
    const details = { timestamp: '', stream: '', position: '', lag_ns: -5 }
    expect(fieldOf({ ...record, weir: details }, '@lag')).toBe(-5)
    const own = { ...record.attributes, attributes: { lag: 7 } }
    expect(fieldOf({ ...record, attributes: own, weir: details }, '@lag')).toBe(7)
    expect(fieldOf(record, '@lag')).toBeUndefined()
  })

  it('has the name that it can be searched by', () => {
    const names = flatten(record.attributes.attributes).map((field) => field.name)
    expect(names).toEqual(['@http.status.code', '@a.b', '@request_id', '@none'])
  })

  it('ties records of a request together', () => {
    expect(traceOf(record)).toEqual({ field: '@request_id', value: 'r' })
  })
})

it('a record is one line of text', () => {
  expect(lineOf(record)).toBe('2026-01-01T00:00:00.000Z error web no')
})

it('a histogram has a bar for each stretch of its range, also where nothing is', () => {
  const point = (minute: number, value: number) => ({
    time: `2026-01-01T00:0${minute}:00.000Z`,
    value,
  })
  const answer = {
    data: {
      buckets: [
        { by: { status: 'info' }, computes: { c0: [point(1, 5)] } },
        { by: { status: 'error' }, computes: { c0: [point(3, 2)] } },
      ],
    },
    meta: { elapsed: 1, request_id: '', status: 'done', weir: { interval_ns: 60e9, matched: 7 } },
  } as unknown as AggregateAnswer
  const from = Date.parse('2026-01-01T00:00:30Z')
  const found = histogramOf(answer, { from, to: from + 4 * 60_000 })
  expect(found.times).toHaveLength(5)
  expect(found.series.map((one) => [one.label, one.values])).toEqual([
    ['error', [0, 0, 0, 2, 0]],
    ['info', [0, 5, 0, 0, 0]],
  ])
})

it('facets stand in groups, the common ones in their order, echoes left out', () => {
  const facet = (name: string): FacetEntry => ({ name, type: 'text', count: 1, values: [] })
  const groups = facetsByGroup(['env', 'host', 'status', '@hostname', '@a', 'service'].map(facet))
  expect(groups.map(([group, list]) => [group, list.map((one) => one.name)])).toEqual([
    ['Common', ['status', 'service', 'host']],
    ['Tags', ['env']],
    ['Attributes', ['@a']],
  ])
})

it('a host that records name themselves is shown if it is another one', () => {
  const facet = (name: string, value: string): FacetEntry => ({
    name,
    type: 'text',
    count: 1,
    values: [{ value, count: 1 }],
  })
  const names = (host: string) =>
    facetsByGroup([facet('host', 'vm'), facet('@host', host)])[2]?.[1].map((one) => one.name)
  expect(names('vm')).toEqual([])
  expect(names('edge-1')).toEqual(['@host'])
})

it('a pattern becomes the phrases between its holes', () => {
  expect(phrasesOf('query took *: SELECT "x" FROM * ()')).toEqual([
    '"query took"',
    '": SELECT x FROM"',
  ])
})

it('a text is one word of a shell', () => {
  expect(shellWord("it's")).toBe(`'it'\\''s'`)
})

it('measures are read from the address', () => {
  expect(readMeasures('queueing_delay = @a - @b; x=@c*2; broken')).toEqual({
    queueing_delay: '@a - @b',
    x: '@c*2',
  })
})
