import { expect, it } from 'vitest'
import { EventParser } from './events'

it('events are cut where they end, however they arrive', () => {
  const text = ': hello\n\nid: 1\nevent: row\ndata: {"a":1}\n\nevent: stat\ndata: x\ndata: y\n\n'
  for (const size of [1, 3, 7, 1_000]) {
    const parser = new EventParser()
    const found = []
    for (let at = 0; at < text.length; at += size)
      found.push(...parser.push(text.slice(at, at + size)))
    expect(found).toEqual([
      { id: '1', event: 'row', data: '{"a":1}' },
      { id: '', event: 'stat', data: 'x\ny' },
    ])
  }
})
