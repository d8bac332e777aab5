// The planning table: the incoming rate of the last two weeks by percentile, and how many machines
// with a measured capacity it needs. Stored records are counted in equal intervals; without a
// store, the readings of the books are used.
import { asProblem, get, post } from '../api/client'
import type { AggregateAnswer, StepEntry } from '../api/schema'
import { isSeries } from '../explore/series'
import { createResource } from '../state/resource'
import { stored } from '../state/stored'

export interface Intake {
  /** Records per second in each interval, lowest first. */
  rates: number[]
  /** Length of an interval, seconds; undefined for readings: minutes, and hours before the last day. */
  step: number | undefined
  /** From the first interval to the last one, seconds. */
  length: number
}

export const intake = createResource<Intake>()

/** Records a second that one machine takes without loss, as measured; 0 before that. */
export const capacity = stored('capacity', 0, isRate)

function isRate(value: unknown): value is number {
  return typeof value === 'number' && Number.isFinite(value) && value >= 0
}

const day = 86_400_000
const lookBack = 14 * day
/** Shorter stretches show more peaks, but two weeks would have too many of them. */
const usual = { interval: '15m', length: 900_000 }
const fine = { interval: '1m', length: 60_000 }
/** With less history than this, usual stretches are too few for percentiles. */
const shortHistory = day / 2

/** The status of a query where there is no store. */
const conflict = 409

export function loadIntake(now: number): Promise<void> {
  return intake.ask(async (signal) => {
    try {
      return await storedIntake(now, signal)
    } catch (error) {
      if (asProblem(error).document.status !== conflict) throw error
      const query = { kind: 'source' as const, window: '30d' as const }
      const { steps } = await get('/weir/v1/reliability/steps', query, signal)
      return readIntake(steps, now)
    }
  })
}

async function storedIntake(now: number, signal: AbortSignal): Promise<Intake> {
  const all = await count(now - lookBack, now, usual.interval, signal)
  const first = pointsOf(all)[0]?.time
  if (first === undefined || now - first > shortHistory) return intakeOf(all, usual.length, now)
  return intakeOf(await count(first, now, fine.interval, signal), fine.length, now)
}

/** A shorter time, at a start or since the last reading, says little about a rate, seconds. */
const shortest = 5

/** The rates of the times in which weir ran, each as often as it has minutes. */
export function readIntake(steps: StepEntry[], now: number): Intake {
  const recent = steps.filter(({ to }) => Date.parse(to) > now - lookBack)
  const whole = recent.filter((step) => step.running_seconds > shortest)
  const rates = whole.flatMap(({ received, running_seconds }) => {
    const minutes = Math.max(1, Math.round(running_seconds / 60))
    return Array.from({ length: minutes }, () => received / running_seconds)
  })
  const length = whole.reduce((sum, step) => sum + step.running_seconds, 0)
  return { rates: rates.sort((a, b) => a - b), step: undefined, length }
}

function count(from: number, to: number, interval: string, signal: AbortSignal) {
  const filter = { query: '', from: new Date(from).toISOString(), to: new Date(to).toISOString() }
  const compute = [{ aggregation: 'count', type: 'timeseries' as const, interval }]
  return post('/api/v2/logs/analytics/aggregate', { filter, compute }, signal)
}

function pointsOf(answer: AggregateAnswer): Array<{ time: number; value: number }> {
  const series = answer.data.buckets[0]?.computes.c0
  if (!isSeries(series)) return []
  return series
    .map(({ time, value }) => ({ time: Date.parse(time), value: value ?? 0 }))
    .filter(({ value }) => value > 0)
    .sort((a, b) => a.time - b.time)
}

/** The first and the last interval are left out because they are incomplete; empty ones count. */
export function intakeOf(answer: AggregateAnswer, step: number, now: number): Intake {
  const points = pointsOf(answer).filter(({ time }) => time + step <= now)
  const [first, ...rest] = points
  const last = points.at(-1)
  if (!first || !last || rest.length === 0) return { rates: [], step: step / 1_000, length: 0 }
  const stretches = Math.round((last.time - first.time) / step)
  const empty = Array.from({ length: stretches - rest.length }, () => 0)
  const rates = [...empty, ...rest.map(({ value }) => value / (step / 1_000))]
  return {
    rates: rates.sort((a, b) => a - b),
    step: step / 1_000,
    length: (stretches * step) / 1_000,
  }
}

export interface Plan {
  name: string
  rate: number
  machines: number | undefined
  /** Machines compared with those for the 80th percentile. */
  cost: number | undefined
}

const percentiles = [50, 75, 80, 85, 90, 95, 99]
const reference = 80

/** The rows of the table, from the median to the highest peak. */
export function plansOf(rates: number[], perMachine: number): Plan[] {
  const needed = (rate: number) => (perMachine > 0 ? Math.ceil(rate / perMachine) : undefined)
  const base = needed(percentileOf(rates, reference))
  const plan = (name: string, rate: number): Plan => {
    const machines = needed(rate)
    return { name, rate, machines, cost: base && machines ? machines / base : undefined }
  }
  return [
    ...percentiles.map((one) => plan(`${one} % of the time`, percentileOf(rates, one))),
    plan('highest peak', rates.at(-1) ?? 0),
  ]
}

/** The lowest rate that is not exceeded in this percentage of the intervals. */
export function percentileOf(sorted: number[], percent: number): number {
  const place = Math.ceil((percent / 100) * sorted.length) - 1
  return sorted[Math.max(0, place)] ?? 0
}
