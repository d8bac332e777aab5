// By which field outliers are looked for at first: services, or hosts where one service is asked for.
import type { FacetEntry } from '../api/schema'
import { parseTerms } from '../query/terms'

const hosts = ['host', '@host', '@hostname']

export function usualGroup(query: string, facets: FacetEntry[]): string {
  const asked = parseTerms(query).find((term) => term.field === 'service' && !term.negated)
  if (asked?.values?.length !== 1) return 'service'
  // Files can be on one machine, and their records of several.
  const several = (name: string) =>
    facets.some((facet) => facet.name === name && facet.values.length > 1)
  return hosts.find(several) ?? 'host'
}
