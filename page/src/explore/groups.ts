// Groups of records: by which fields, with which aggregate, as totals or over time. The choice is
// part of the address.
import { computed } from '@preact/signals'
import type { AggregateAnswer, AggregateBody, Meta } from '../api/schema'
import { metric } from '../latency/choice'
import { parameter } from '../state/location'
import { createResource } from '../state/resource'
import type { Series } from '../ui/plot'
import { seriesColor } from '../ui/theme'
import { aggregate } from './aggregate'
import { filterOf, type Question } from './question'
import { timelineOf, valuesOn } from './series'

const group = parameter('group')
const aggregation = parameter('aggregation')
const chart = parameter('chart')

export interface Choice {
  fields: string[]
  aggregation: string
  metric: string
  chart: 'list' | 'lines'
}

/** Aggregations by their names in requests, with the names on the page. */
export const aggregations: Record<string, string> = {
  count: 'number of records',
  cardinality: 'distinct values of',
  avg: 'average of',
  min: 'minimum of',
  max: 'maximum of',
  sum: 'sum of',
  median: 'median of',
  pc90: '90th percentile of',
  pc95: '95th percentile of',
  pc99: '99th percentile of',
}

/** Whether the result is a count, rather than a value in the unit of the field. */
export function isCount(aggregation: string): boolean {
  return aggregation === 'count' || aggregation === 'cardinality'
}

export const choice = computed<Choice>(() => ({
  fields: (group.value || 'service').split(',').filter(Boolean).slice(0, 2),
  aggregation: Object.hasOwn(aggregations, aggregation.value) ? aggregation.value : 'count',
  metric: metric.value,
  chart: chart.value === 'lines' ? 'lines' : 'list',
}))

export interface Groups {
  rows: Array<{ by: Record<string, unknown>; label: string; value: number; count: number }>
  times: number[]
  step: number
  series: Series[]
  unit: string | undefined
  /** Records that are in no group, since they lack a field. */
  without: number
  meta: Meta
  choice: Choice
}

export const groups = createResource<Groups>()

const listed = 50
const lines = 10

export function loadGroups(question: Question, chosen: Choice): Promise<void> {
  return groups.ask(async (signal) => {
    const answer = await aggregate(bodyOf(question, chosen), signal)
    return groupsOf(answer, chosen, question)
  })
}

function bodyOf(question: Question, chosen: Choice): AggregateBody {
  const { aggregation, fields, metric: field } = chosen
  const over = chosen.chart === 'lines'
  const measured = aggregation === 'count' ? {} : { metric: field }
  const type = over ? 'timeseries' : 'total'
  const compute: AggregateBody['compute'] = [{ aggregation, type, ...measured }]
  if (!over && aggregation !== 'count') compute.push({ aggregation: 'count', type: 'total' })
  const limit = over ? lines : Math.max(10, Math.round(listed / fields.length))
  const sort =
    aggregation === 'count' ? {} : { sort: { aggregation, metric: field, order: 'desc' as const } }
  return {
    filter: filterOf(question),
    compute,
    group_by: fields.map((facet) => ({
      facet,
      limit: fields.length > 1 ? Math.min(limit, 10) : limit,
      ...sort,
    })),
    weir: { calculated_fields: question.measures, points: 90, timeout: '5s' },
  }
}

function groupsOf(answer: AggregateAnswer, chosen: Choice, question: Question): Groups {
  const { buckets } = answer.data
  const labelOf = (by: Record<string, unknown>) =>
    chosen.fields.map((field) => `${by[field] ?? ''}`).join(' · ')
  const { matched = 0, grouped, units } = answer.meta.weir
  const common = {
    unit: units?.c0,
    without: Math.max(0, (matched ?? 0) - (grouped ?? matched ?? 0)),
    choice: chosen,
    meta: answer.meta,
  }
  if (chosen.chart === 'list') {
    const rows = buckets.map((bucket) => {
      const value = Number(bucket.computes.c0 ?? 0)
      return {
        by: bucket.by,
        label: labelOf(bucket.by),
        value,
        count: Number(bucket.computes.c1 ?? value),
      }
    })
    return { ...common, rows, times: [], step: 0, series: [] }
  }
  const { times, step } = timelineOf(answer, question.span)
  const missing = chosen.aggregation === 'count' ? 0 : null
  const series = buckets.slice(0, lines).map((bucket, index) => ({
    label: labelOf(bucket.by),
    color: seriesColor(index),
    values: valuesOn(times, bucket.computes.c0, missing),
  }))
  const some = series.filter((one) => one.values.some((value) => value !== null))
  return { ...common, rows: [], times, step, series: some }
}
