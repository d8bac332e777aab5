// The requests of the latency view: percentiles over time, heat map, outliers, and the parts of a
// request's time.
import type { AggregateAnswer, ComputeBody, GroupByBody, Meta } from '../api/schema'
import { aggregate } from '../explore/aggregate'
import { loadFacet } from '../explore/facets'
import { filterOf, type Question } from '../explore/question'
import { timelineOf, valuesOn } from '../explore/series'
import { unitRatio } from '../format/numbers'
import { quoteKey } from '../query/quote'
import { createResource } from '../state/resource'
import type { Series } from '../ui/plot'
import type { Pair } from './pair'
import { decadesOf, indexOf, type Step, stepsOf } from './scale'

const timeout = '5s'

export interface Lines {
  times: number[]
  step: number
  series: Series[]
  unit: string | undefined
}

export interface Summary {
  count: number
  mean: number
  p50: number
  p90: number
  p99: number
  max: number
  unit: string | undefined
  meta: Meta
}

export interface HeatMap {
  times: number[]
  step: number
  steps: Step[]
  /** Counts by step, then by time. */
  counts: number[][]
  unit: string | undefined
}

export interface Outlier {
  name: string
  count: number
  p50: number
  p90: number
  p99: number
}

export const percentiles = createResource<Lines>()
export const summary = createResource<Summary>()
export const heat = createResource<HeatMap>()
export const outliers = createResource<{ rows: Outlier[]; unit: string | undefined }>()
export const parts = createResource<Parts>()

function figuresOf(
  question: Question,
  compute: ComputeBody[],
  more: { group_by?: GroupByBody[]; points?: number },
  signal: AbortSignal,
): Promise<AggregateAnswer> {
  const { group_by = [], points } = more
  const body = {
    filter: filterOf(question),
    compute,
    group_by,
    weir: { calculated_fields: question.measures, timeout, ...(points ? { points } : {}) },
  }
  return aggregate(body, signal)
}

const shownPercentiles: Array<[string, string, string]> = [
  ['pc99', '99th percentile', '--series-5'],
  ['pc90', '90th percentile', '--series-2'],
  ['pc50', 'median', '--series-1'],
]

export function loadPercentiles(question: Question, metric: string): void {
  percentiles.ask(async (signal) => {
    const compute = shownPercentiles.map(([aggregation]) => ({
      aggregation,
      metric,
      type: 'timeseries' as const,
    }))
    const answer = await figuresOf(question, compute, { points: 100 }, signal)
    const timeline = timelineOf(answer, question.span)
    const computes = answer.data.buckets[0]?.computes ?? {}
    const series = shownPercentiles.map(([, label, color], at) => ({
      label,
      color,
      values: valuesOn(timeline.times, computes[`c${at}`], null),
    }))
    return { ...timeline, series, unit: answer.meta.weir.units?.c0 }
  })
}

export function loadSummary(question: Question, metric: string): void {
  summary.ask(async (signal) => {
    const figures = ['avg', 'pc50', 'pc90', 'pc99', 'max']
    const compute = figures.map((aggregation) => ({ aggregation, metric }))
    const counted = {
      ...question,
      query: `${question.query ? `(${question.query}) ` : ''}${quoteKey(metric)}:*`,
    }
    const answer = await figuresOf(counted, [...compute, { aggregation: 'count' }], {}, signal)
    const found = answer.data.buckets[0]?.computes ?? {}
    const number = (at: number) => Number(found[`c${at}`] ?? Number.NaN)
    return {
      mean: number(0),
      p50: number(1),
      p90: number(2),
      p99: number(3),
      max: number(4),
      count: Number(found.c5 ?? 0),
      unit: answer.meta.weir.units?.c0,
      meta: answer.meta,
    }
  })
}

const heatColumns = 72

export function loadHeat(question: Question, metric: string): void {
  heat.ask(async (signal) => {
    const facet = await loadFacet(question, metric, signal)
    if (facet?.max == null) return emptyHeat
    const decades = decadesOf(facet.min ?? 0, facet.max)
    const first = decades[0]?.low ?? 1
    const ranges = [
      { low: 0, high: first, step: first },
      ...decades.map((one) => ({ ...one, high: one.low * 10 })),
    ]
    const answers = await Promise.all(
      ranges.map(({ low, high, step }) => {
        const histogram = { interval: step, min: low, max: high * (1 - 1e-9) }
        const group_by = [{ facet: metric, limit: 20, histogram }]
        const compute = [{ aggregation: 'count', type: 'timeseries' as const }]
        return figuresOf(question, compute, { group_by, points: heatColumns }, signal)
      }),
    )
    return heatOf(answers, stepsOf(decades), metric, question, facet.unit ?? undefined)
  })
}

const emptyHeat: HeatMap = { times: [], step: 0, steps: [], counts: [], unit: undefined }

function heatOf(
  answers: AggregateAnswer[],
  steps: Step[],
  metric: string,
  question: Question,
  unit: string | undefined,
): HeatMap {
  const filled = answers.filter((answer) => answer.data.buckets.length > 0)
  const lines = filled.map((answer) => timelineOf(answer, question.span))
  const times = [...new Set(lines.flatMap((line) => line.times))].sort((a, b) => a - b)
  const step = lines[0]?.step ?? 0
  const counts = steps.map(() => times.map(() => 0))
  for (const bucket of answers.flatMap((answer) => answer.data.buckets)) {
    const at = indexOf(steps, Number(bucket.by[metric]))
    if (at >= 0) counts[at] = valuesOn(times, bucket.computes.c0, 0).map((value) => value ?? 0)
  }
  return { times, step, steps, counts, unit }
}

const outliersMax = 12

export function loadOutliers(question: Question, metric: string, by: string): void {
  outliers.ask(async (signal) => {
    const figures = ['pc50', 'pc90', 'pc99'].map((aggregation) => ({ aggregation, metric }))
    const sort = { aggregation: 'pc99', metric, order: 'desc' as const }
    const group_by = [{ facet: by, limit: outliersMax, sort }]
    const compute = [{ aggregation: 'count' }, ...figures]
    const answer = await figuresOf(question, compute, { group_by }, signal)
    const rows = answer.data.buckets.flatMap(({ by: names, computes }) => {
      if (computes.c1 == null) return []
      const number = (at: number) => Number(computes[`c${at}`] ?? 0)
      const name = `${names[by] ?? ''}`
      return [{ name, count: number(0), p50: number(1), p90: number(2), p99: number(3) }]
    })
    return { rows, unit: answer.meta.weir.units?.c1 }
  })
}

export interface Parts extends Lines {
  /** Means over all records, in one unit, whatever the figure of the lines is. */
  service: number
  queueing: number
}

/** Means add up to the mean of the whole; percentiles do not, so they are lines. */
export function loadParts(question: Question, { service, queueing }: Pair, figure: string): void {
  parts.ask(async (signal) => {
    const means = [service, queueing].map((metric) => ({ aggregation: 'avg', metric }))
    const both = [service, queueing].map((metric) => ({
      aggregation: figure,
      metric,
      type: 'timeseries' as const,
    }))
    const answer = await figuresOf(question, [...both, ...means], { points: 100 }, signal)
    const timeline = timelineOf(answer, question.span)
    const computes = answer.data.buckets[0]?.computes ?? {}
    const { c0, c1 } = answer.meta.weir.units ?? {}
    const inSameUnit = (value: number | null) => (value === null ? null : value * unitRatio(c1, c0))
    const series = [
      {
        label: 'service time',
        color: '--series-1',
        values: valuesOn(timeline.times, computes.c0, null),
      },
      {
        label: 'queueing delay',
        color: '--series-2',
        values: valuesOn(timeline.times, computes.c1, null).map(inSameUnit),
      },
    ]
    const mean = (value: unknown) => Number(value ?? 0)
    return {
      ...timeline,
      series,
      unit: c0,
      service: mean(computes.c2),
      queueing: mean(computes.c3) * unitRatio(c1, c0),
    }
  })
}
