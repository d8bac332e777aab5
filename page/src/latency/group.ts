// By which field to look for outliers by default: services, or the hosts and backends of the
// service in the query.
import type { FacetEntry } from '../api/schema'
import { parseTerms } from '../query/terms'

const hosts = ['host', '@host', '@hostname']

/** Fields that say where a request went, or what it requested. */
const parts = /upstream|backend|instance|pod|worker|route|endpoint|handler|operation/

/** The maximum number of groups that can be compared. */
const groupsMost = 50

export function usualGroup(query: string, facets: FacetEntry[]): string {
  const asked = parseTerms(query).find((term) => term.field === 'service' && !term.negated)
  if (asked?.values?.length !== 1) return 'service'
  // Files can be on one machine, and their records of several.
  const several = (facet: FacetEntry) => facet.values.length > 1
  const host = hosts.find((name) => facets.some((facet) => facet.name === name && several(facet)))
  const part = facets.filter(
    (facet) => parts.test(facet.name) && several(facet) && (facet.distinct ?? 0) <= groupsMost,
  )
  // Destinations are preferred to what was requested from them.
  const place = part.find((facet) => !/route|endpoint|handler|operation/.test(facet.name))
  return host ?? (place ?? part[0])?.name ?? 'host'
}
