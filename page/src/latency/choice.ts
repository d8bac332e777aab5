// Which number is looked at, and which two make up the time of a request. All stands in the address.
import { computed } from '@preact/signals'
import { numberFields } from '../explore/facets'
import { lagField } from '../explore/record'
import { isTime } from '../format/numbers'
import { parameter } from '../state/location'

const metricParameter = parameter('metric')
const byParameter = parameter('by')
const measureParameter = parameter('measure')
const serviceParameter = parameter('service')

/** Names that say how long a request took in all, and how long it was worked on. */
const pairs: Array<[string, string]> = [
  ['@request_time_ms', '@service_time_ms'],
  ['@request_time', '@service_time'],
  ['@request_time', '@upstream_response_time'],
  ['@duration', '@upstream_response_time'],
  ['@duration', '@service_time'],
  ['@network.unicorn.total_time', '@network.unicorn.service_time'],
]

export const metric = computed(() => {
  if (metricParameter.value) return metricParameter.value
  // Every record has a lag, which is not a time of a request: it is shown if it is the only number.
  const numbers = numberFields.value.filter((facet) => facet.name !== lagField)
  const times = numbers.filter((facet) => isTime(facet.unit))
  const usual =
    times.find((facet) => /duration|request_time/.test(facet.name)) ?? times[0] ?? numbers[0]
  const isLagThere = numberFields.value.some((facet) => facet.name === lagField)
  return usual?.name ?? (isLagThere ? lagField : '@duration')
})

export const by = computed(() => byParameter.value || 'service')

export interface Pair {
  service: string
  queueing: string
}

/** The two parts of a request's time, once they are chosen or there by themselves. */
export const pair = computed<Pair | undefined>(() => {
  if (measureParameter.value && serviceParameter.value) {
    return { service: serviceParameter.value, queueing: '@queueing_delay' }
  }
  const names = numberFields.value.map((facet) => facet.name)
  const queueing = names.find((name) => /queue?ing_delay$/.test(name))
  const service = names.find((name) => /service_time/.test(name))
  return queueing && service ? { service, queueing } : undefined
})

/** Two fields that could be taken for them. */
export const suggestedPair = computed(() => {
  const names = new Set(numberFields.value.map((facet) => facet.name))
  return pairs.find(([total, service]) => names.has(total) && names.has(service))
})
