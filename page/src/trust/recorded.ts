// Weir's readings of its books, by window and by rate.

import type {
  RateEntry,
  ReliabilityDocument,
  StepEntry,
  StepsDocument,
  Window,
} from '../api/schema'
import { rate, short } from '../format/numbers'
import { createResource } from '../state/resource'

export const recorded = createResource<ReliabilityDocument>()
export const steps = createResource<StepsDocument>()

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

export function rangeText({ from, to }: RateEntry): string {
  return from === 0 ? `below ${rate(to)}` : `${short(from)} to ${rate(to)}`
}

/** The intervals in which records were lost, the latest first. */
export function lossySteps(steps: StepEntry[]): StepEntry[] {
  return steps.filter(({ lost }) => lost > 0).toReversed()
}
