import { expect, it } from 'vitest'
import type { LogEntry, PathAnswer, PathHop } from '../api/schema'
import {
  delayText,
  isOnItsWay,
  meanText,
  ownHops,
  stateText,
  timeNote,
  titleOf,
  toneOf,
} from './path'

const hop = (changes: Partial<PathHop>): PathHop => ({
  kind: 'output',
  state: 'passed',
  ...changes,
})

it('a delay says since when it is counted', () => {
  expect(delayText(hop({ delay_ns: 2_500_000, since: 'journal' }))).toBe(
    '2.5 ms after it was in the journal',
  )
  expect(delayText(hop({ delay_ns: -3e9, since: 'written' }))).toBe(
    '3 s before it was written: the clock of its sender is ahead',
  )
  expect(delayText(hop({ since: 'written' }))).toBe('')
  expect(delayText(hop({ delay_ns: 0, since: 'received' }))).toBe('0 s after it was received')
})

it('a time that is not that of the record alone is marked', () => {
  expect(timeNote(hop({ time_of: 'batch' }))).toBe('of its batch')
  expect(timeNote(hop({ kind: 'segment', time_of: 'last_of_several' }))).toBe('at the latest')
  expect(timeNote(hop({ kind: 'received', time_of: 'block' }))).toBe('')
})

it('a mean stands beside what is unknown, never in place of it', () => {
  const mean = { mean_delay_ns: 40e6, mean_of_batches: 1_200 }
  expect(meanText(hop({ ...mean }))).toBe(
    'The time is not kept. Usually 40 ms after arrival, the mean of 1,200 batches.',
  )
  expect(meanText(hop({ ...mean, time: '2026-01-01T00:00:00Z' }))).toBe('')
  expect(meanText(hop({}))).toBe('')
})

it('every state has words or a time', () => {
  expect(titleOf(hop({ name: 'hec', type: 'splunk_hec' }))).toBe('hec (splunk_hec)')
  expect(stateText(hop({ state: 'delivered' }))).toBe('Delivered.')
  expect(stateText(hop({ kind: 'segment', state: 'waiting' }))).toContain('memory')
  expect(toneOf(hop({ state: 'waiting' }))).toBe('caution')
  expect(toneOf(hop({ state: 'delivered', delay_ns: 61e9 }))).toBe('caution')
  expect(toneOf(hop({ state: 'not_sent' }))).toBe('')
})

it('a record on its way is asked for again', () => {
  const answer = (state: PathHop['state']): PathAnswer => ({
    id: 'a',
    stored: true,
    hops: [hop({}), hop({ state })],
  })
  expect(isOnItsWay(answer('may_wait'))).toBe(true)
  expect(isOnItsWay(answer('settled'))).toBe(false)
})

it('the record itself says when it was written and received', () => {
  const record = {
    attributes: { timestamp: '2026-01-01T00:00:00.000Z' },
    weir: {
      timestamp: '2026-01-01T00:00:00.000000001Z',
      source: 'app',
      arrival: '2026-01-01T00:00:02.000000001Z',
      lag_ns: 2e9,
    },
  } as LogEntry
  const [written, received] = ownHops(record)
  expect(written?.time).toBe('2026-01-01T00:00:00.000000001Z')
  expect(received && [titleOf(received), delayText(received)]).toEqual([
    'Received by app',
    '2 s after it was written',
  ])
})
