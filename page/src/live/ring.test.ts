import { expect, it } from 'vitest'
import { Ring, ringMax } from './ring'

const row = (id: string) => ({ kind: 'row' as const, id, data: '{}' })
const rows = (count: number) => Array.from({ length: count }, (_, index) => row(`${index}`))

it('what comes in while somebody reads waits, and then follows in order', () => {
  const ring = new Ring()
  ring.add([row('a')], true)
  ring.add([row('b')], false)
  expect(ring.shown).toHaveLength(1)
  expect(ring.waiting).toHaveLength(1)
  ring.catchUp()
  expect(ring.shown.map((entry) => entry.kind === 'row' && entry.id)).toEqual(['a', 'b'])
})

it('it never keeps more than its bound, and says what it pushed out', () => {
  const ring = new Ring()
  ring.add(rows(ringMax + 10), true)
  expect(ring.shown).toHaveLength(ringMax)
  ring.add(rows(ringMax + 5), false)
  expect(ring.waiting).toHaveLength(ringMax)
  expect(ring.pushedOut).toBe(5)
  ring.catchUp()
  expect(ring.shown).toHaveLength(ringMax)
  expect(ring.pushedOut).toBe(0)
})

it('each entry has a key of its own', () => {
  const ring = new Ring()
  ring.add(rows(3), true)
  ring.add(rows(3), true)
  expect(new Set(ring.shown.map((entry) => entry.key)).size).toBe(6)
})
