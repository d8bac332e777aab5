// How many records there are over time, by severity: counted by weir, whatever the rows show.
import { post } from '../api/client'
import type { AggregateAnswer, Meta } from '../api/schema'
import { type Status, statuses, toneOf } from '../format/status'
import { createResource } from '../state/resource'
import { zone, zoneName } from '../state/settings'
import type { Series } from '../ui/plot'
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

export function loadHistogram(question: Question, points: number): Promise<void> {
  return histogram.ask(async (signal) => {
    const answer = await post(
      '/api/v2/logs/analytics/aggregate',
      {
        filter: filterOf(question),
        compute: [{ aggregation: 'count', type: 'timeseries' }],
        group_by: [{ facet: 'status', missing: 'none', limit: 20 }],
        options: { timezone: zoneName(zone.peek()) },
        weir: { points, measures: question.measures },
      },
      signal,
    )
    return histogramOf(answer, question.span)
  })
}

export function histogramOf(answer: AggregateAnswer, span: Question['span']): Histogram {
  const { times, step } = timelineOf(answer, span)
  const byStatus = new Map(answer.data.buckets.map((bucket) => [`${bucket.by.status}`, bucket]))
  const series = order.flatMap((status) => {
    const bucket = byStatus.get(status)
    if (!bucket) return []
    const values = valuesOn(times, bucket.computes.c0, 0)
    return [{ label: status, colour: `--tone-${toneOf(status)}`, values }]
  })
  return { times, step, series, matched: answer.meta.weir.matched ?? 0, meta: answer.meta, span }
}
