// The number of records over time, by severity. Weir counts them, independently of the rows that
// are loaded.

import { computed } from '@preact/signals'
import type { AggregateAnswer, Meta } from '../api/schema'
import { type Status, statuses, toneOf } from '../format/status'
import { parameter } from '../state/location'
import { createResource } from '../state/resource'
import { zone, zoneName } from '../state/settings'
import type { Series } from '../ui/plot'
import { seriesColor } from '../ui/theme'
import { aggregate } from './aggregate'
import { filterOf, type Question } from './question'
import { timelineOf, valuesOn } from './series'

export interface Histogram {
  times: number[]
  step: number
  series: Series[]
  matched: number
  meta: Meta
  span: Question['span']
}

export const histogram = createResource<Histogram>()

/** The worst severities are at the bottom, where bars can be compared. */
const order: Status[] = [...statuses, 'none']

/** The field that bars are divided by. */
const splitParameter = parameter('split')
export const split = computed(() => splitParameter.value || 'status')

/** The interval of a bar as the API names it; empty if weir chooses it. */
const barParameter = parameter('bar')
export const bar = computed(() => barParameter.value)

const bars: Array<[string, number]> = [
  ['1s', 1_000],
  ['10s', 10_000],
  ['30s', 30_000],
  ['1m', 60_000],
  ['5m', 300_000],
  ['15m', 900_000],
  ['1h', 3_600_000],
  ['6h', 21_600_000],
  ['1d', 86_400_000],
]
const barsMax = 720
const barsMin = 2

/** The intervals that give neither too many bars nor a single one. */
export function barsFor({ from, to }: Question['span']): string[] {
  const fitting = bars.filter(([, length]) => {
    const count = (to - from) / length
    return count <= barsMax && count >= barsMin
  })
  return fitting.map(([name]) => name)
}

const partsMax = 8

export function loadHistogram(
  question: Question,
  points: number,
  by: string,
  length: string,
): Promise<void> {
  const interval = barsFor(question.span).includes(length) ? { interval: length } : {}
  return histogram.ask(async (signal) => {
    const answer = await aggregate(
      {
        filter: filterOf(question),
        compute: [{ aggregation: 'count', type: 'timeseries', ...interval }],
        group_by: [{ facet: by, missing: 'none', limit: by === 'status' ? 20 : partsMax }],
        options: { timezone: zoneName(zone.peek()) },
        weir: { points, calculated_fields: question.measures },
      },
      signal,
    )
    return histogramOf(answer, question.span, by)
  })
}

export function histogramOf(
  answer: AggregateAnswer,
  span: Question['span'],
  by = 'status',
): Histogram {
  const { times, step } = timelineOf(answer, span)
  const found = answer.data.buckets.map((bucket) => ({
    label: `${bucket.by[by] ?? 'none'}`,
    values: valuesOn(times, bucket.computes.c0, 0),
  }))
  const series =
    by === 'status'
      ? order.flatMap((status) => {
          const one = found.find(({ label }) => label === status)
          return one ? [{ ...one, color: `--tone-${toneOf(status)}` }] : []
        })
      : found.map((one, index) => ({ ...one, color: seriesColor(index) }))
  const { matched } = answer.meta.weir
  return { times, step, series, matched: matched ?? 0, meta: answer.meta, span }
}
