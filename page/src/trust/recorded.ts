// What weir has recorded of delivery, by window; and from it, how much is lost at which rate.

import type { ReliabilityDocument, StepEntry, Window } from '../api/schema'
import { short } from '../format/numbers'
import { createResource } from '../state/resource'

export const recorded = createResource<ReliabilityDocument>()
export const steps = createResource<StepEntry[]>()

export const windows: Window[] = ['1h', '6h', '1d', '7d', '30d']

export const windowNames: Record<Window, string> = {
  '1h': '1 hour',
  '6h': '6 hours',
  '1d': '1 day',
  '7d': '7 days',
  '30d': '30 days',
}

const hour = 3_600

const lengths: Record<Window, number> = {
  '1h': hour,
  '6h': 6 * hour,
  '1d': 24 * hour,
  '7d': 7 * 24 * hour,
  '30d': 30 * 24 * hour,
}

/** For how long a window was recorded if that is clearly shorter than its name says, seconds. */
export function shorterThanNamed(window: Window, from: string, time: string): number | undefined {
  const length = (Date.parse(time) - Date.parse(from)) / 1_000
  return length < lengths[window] * 0.98 ? Math.max(0, length) : undefined
}

/** Of a stretch of time, the share in which weir ran. */
export function ranShare(running: number, from: string, time: string): number | undefined {
  const length = (Date.parse(time) - Date.parse(from)) / 1_000
  return length > 0 ? Math.min(1, running / length) : undefined
}

/** What came in at rates within a range, and what was lost of it. */
export interface LossAtRate {
  /** Records a second, from and below. */
  from: number
  to: number
  /** For how long, seconds. */
  time: number
  received: number
  delivered: number
  lost: number
}

/** Steps of 1, 2 and 5: few enough for a table, fine enough to see where loss begins. */
const steps125 = [1, 2, 5]

function rangeOf(rate: number): [number, number] {
  if (rate < 1) return [0, 1]
  const decade = 10 ** Math.floor(Math.log10(rate) + 1e-9)
  const bounds = [...steps125, 10].map((one) => one * decade)
  const above = bounds.findIndex((bound) => rate < bound)
  return [bounds[above - 1] ?? decade, bounds[above] ?? decade * 10]
}

/** Shorter stretches, at a start or at the end, say little about a rate. */
const secondsMin = 5

export function lossByRate(found: StepEntry[]): LossAtRate[] {
  const ranges = new Map<number, LossAtRate>()
  for (const { running_seconds: time, received, delivered, lost } of found) {
    if (time < secondsMin || (received === 0 && lost === 0)) continue
    const [from, to] = rangeOf(received / time)
    const range = ranges.get(from) ?? { from, to, time: 0, received: 0, delivered: 0, lost: 0 }
    ranges.set(from, {
      ...range,
      time: range.time + time,
      received: range.received + received,
      delivered: range.delivered + delivered,
      lost: range.lost + lost,
    })
  }
  return [...ranges.values()].sort((a, b) => a.from - b.from)
}

export function rangeText({ from, to }: LossAtRate): string {
  return from === 0 ? 'below 1/s' : `${short(from)} to ${short(to)}/s`
}
