// How many records there are over time, by severity: counted by weir, whatever the rows show.

import { computed } from '@preact/signals'
import { post } from '../api/client'
import type { AggregateAnswer, Meta } from '../api/schema'
import { type Status, statuses, toneOf } from '../format/status'
import { parameter } from '../state/location'
import { createResource } from '../state/resource'
import { zone, zoneName } from '../state/settings'
import type { Series } from '../ui/plot'
import { seriesColour } from '../ui/theme'
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

/** What is worst stands at the bottom, where bars can be compared. */
const order: Status[] = [...statuses, 'none']

/** By which field bars are divided. */
const splitParameter = parameter('split')
export const split = computed(() => splitParameter.value || 'status')

const partsMax = 8

export function loadHistogram(question: Question, points: number, by: string): Promise<void> {
  return histogram.ask(async (signal) => {
    const answer = await post(
      '/api/v2/logs/analytics/aggregate',
      {
        filter: filterOf(question),
        compute: [{ aggregation: 'count', type: 'timeseries' }],
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
          return one ? [{ ...one, colour: `--tone-${toneOf(status)}` }] : []
        })
      : found.map((one, index) => ({ ...one, colour: seriesColour(index) }))
  const { matched } = answer.meta.weir
  return { times, step, series, matched: matched ?? 0, meta: answer.meta, span }
}
