// Converts responses of the aggregate call to series over a common time axis without gaps.
import type { AggregateAnswer } from '../api/schema'

export interface Timeline {
  times: number[]
  /** Length of an interval, milliseconds. */
  step: number
}

export interface Point {
  time: string
  value: number | null
}

export function isSeries(value: unknown): value is Point[] {
  return Array.isArray(value)
}

/** All intervals of the range. Days with a change of the clock have another length. */
export function timelineOf(answer: AggregateAnswer, span: { from: number; to: number }): Timeline {
  const seen = new Set<number>()
  for (const bucket of answer.data.buckets) {
    for (const series of Object.values(bucket.computes)) {
      if (isSeries(series)) for (const point of series) seen.add(Date.parse(point.time))
    }
  }
  const step = (answer.meta.weir.interval_ns ?? 0) / 1e6 || span.to - span.from
  const anchor = seen.values().next().value ?? 0
  const first = anchor + Math.floor((span.from - anchor) / step) * step
  for (let time = first; time < span.to && seen.size < 5_000; time += step) seen.add(time)
  return { times: [...seen].sort((a, b) => a - b), step }
}

/** The values of a series at these times, with `missing` where there is none. */
export function valuesOn(
  times: number[],
  series: unknown,
  missing: number | null,
): Array<number | null> {
  const byTime = new Map<number, number | null>()
  for (const { time, value } of isSeries(series) ? series : []) {
    byTime.set(Date.parse(time), value === null ? null : Number(value))
  }
  return times.map((time) => byTime.get(time) ?? missing)
}
