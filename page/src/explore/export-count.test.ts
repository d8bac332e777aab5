import { expect, it } from 'vitest'
import { counterOf } from './export-count'

function counted(format: 'ndjson' | 'csv' | 'parquet', pieces: string[]): number | undefined {
  const counter = counterOf(format)
  for (const piece of pieces) counter.take(new TextEncoder().encode(piece))
  return counter.count()
}

it('records are counted over the borders of pieces', () => {
  expect(counted('ndjson', ['{"a":1}\n{"a"', ':2}\n'])).toBe(2)
  expect(counted('ndjson', [])).toBe(0)
})

it('a value of CSV can have lines and quotes in it', () => {
  expect(counted('csv', ['time,message\n1,"a\nb ""c', '"" d\n"\n2,e\n'])).toBe(2)
  expect(counted('csv', ['time,message\n'])).toBe(0)
})

it('a binary format says nothing before its end', () => {
  expect(counted('parquet', ['PAR1\n\n'])).toBeUndefined()
})
