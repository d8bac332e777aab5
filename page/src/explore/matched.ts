// The number of matching records, from whichever response has it: the histogram, or the facets
// while it is hidden.
import { computed } from '@preact/signals'
import { histogramShown } from '../state/settings'
import { facets } from './facets'
import { histogram } from './histogram'
import { question } from './question'
import { allLoaded, rows } from './records'

/** Undefined while it is unknown; the previous number while a new response is awaited. */
export const matched = computed<number | undefined>(() => {
  if (histogramShown.value)
    return histogram.problem.value ? undefined : histogram.data.value?.matched
  const counted = facets.data.value
  if (counted?.asked === question.value) return counted.meta.weir.matched ?? undefined
  return allLoaded.value ? rows.value.length : undefined
})
