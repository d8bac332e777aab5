// Which number is shown, and which two fields make up the time of a request. Both are part of the
// address.
import { computed } from '@preact/signals'
import { facets, numberFields } from '../explore/facets'
import { query } from '../explore/question'
import { lagField } from '../explore/record'
import { isTime } from '../format/numbers'
import { parameter } from '../state/location'
import { usualGroup } from './group'
import { type Pair, partsIn, timesOf, totalAndService } from './pair'

const metricParameter = parameter('metric')
const byParameter = parameter('by')
const measureParameter = parameter('measure')
const serviceParameter = parameter('service')

/** How many requests can be processed at once, as the user has entered it. */
export const workers = parameter('workers')

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

export const by = computed(
  () => byParameter.value || usualGroup(query.value, facets.data.value?.facets ?? []),
)

/** The two parts of a request's time, as chosen or recognized. */
export const pair = computed<Pair | undefined>(() => {
  if (measureParameter.value && serviceParameter.value) {
    return { service: serviceParameter.value, queueing: '@queueing_delay' }
  }
  return partsIn(numberFields.value.map((facet) => facet.name))
})

/** Fields that can be the time of a request, or a part of it. */
export const timeFields = computed(() => timesOf(numberFields.value))

/** Two fields of which one is probably the time of a request, and the other its service time. */
export const suggestedPair = computed(() => totalAndService(timeFields.value))
