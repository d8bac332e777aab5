// Recognizes the fields that make up the time of a request by their names: service time, queueing
// delay, and total time, from which the delay can be computed.
import type { FacetEntry } from '../api/schema'
import { lagField } from '../explore/record'
import { isTime } from '../format/numbers'

export interface Pair {
  service: string
  queueing: string
}

/** Names end with their unit where a program says it: `@queueing_delay_ms`. */
const unit = '(?:_(?:ns|us|ms|s|min|seconds|milliseconds|microseconds|nanoseconds))?$'
const named = (words: string) => new RegExp(`[@._](?:${words})${unit}`)

const queueing = named('queue?ing_delay|queue?ing_time|queue_time|time_queue|wait_time')

/** The first that fits is meant. */
const services = [
  'service_time',
  'upstream_response_time',
  'upstream_time',
  'time_backend_response',
]
const totals = [
  'request_time',
  'total_time',
  'response_time',
  'time_request',
  'duration',
  'elapsed',
]

/** Whether a field is the whole time of a request, by its name. */
export function isTotal(name: string): boolean {
  return totals.some((word) => named(word).test(name))
}

/** A service time and a queueing delay, of the same object where there are several. */
export function partsIn(names: string[]): Pair | undefined {
  const waits = names.filter((name) => queueing.test(name))
  const works = names.filter((name) => named('service_time').test(name))
  const same = waits.flatMap((wait) =>
    works.filter((work) => parent(work) === parent(wait)).map((work) => [work, wait] as const),
  )
  const [service, delay] = same[0] ?? [works[0], waits[0]]
  return service && delay ? { service, queueing: delay } : undefined
}

/** The whole time and the service time, or nothing if no two names say so. */
export function totalAndService(names: string[]): [string, string] | undefined {
  const find = (words: string[]) =>
    words.flatMap((word) => names.filter((name) => named(word).test(name)))[0]
  const [total, service] = [find(totals), find(services)]
  return total && service ? [total, service] : undefined
}

function parent(name: string): string {
  return name.slice(0, Math.max(0, name.lastIndexOf('.')))
}

/** Names of the fields that are times of requests; all numbers if fewer than two are known to be. */
export function timesOf(numbers: FacetEntry[]): string[] {
  // Every record has a lag, which is not a time of a request.
  const others = numbers.filter((facet) => facet.name !== lagField)
  const times = others.filter((facet) => isTime(facet.unit))
  return (times.length > 1 ? times : others).map((facet) => facet.name)
}
