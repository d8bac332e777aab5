// Fields of the records that match, with their values and counts. A field that the query filters by
// is counted without its own filter, so that its other values can be chosen as well.
import { computed } from '@preact/signals'
import { get } from '../api/client'
import type { FacetEntry, FacetsAnswer } from '../api/schema'
import { parseTerms, withoutField } from '../query/terms'
import { createResource } from '../state/resource'
import { addressOf, type Question } from './question'

export const facets = createResource<FacetsAnswer>()

const fieldsMax = 60
const valuesMax = 10
/** Facets are worth waiting for a little longer than rows. */
const timeout = '5s'

export function loadFacets(question: Question): Promise<void> {
  return facets.ask(async (signal) => {
    const common = { limit: fieldsMax, values: valuesMax, timeout }
    const filtered = filteredFields(question.query)
    const [all, ...own] = await Promise.all([
      get('/weir/v1/facets', { ...addressOf(question), ...common }, signal),
      ...filtered.map((field) => {
        const others = { ...question, query: withoutField(question.query, field) }
        return get('/weir/v1/facets', { ...addressOf(others), ...common, fields: field }, signal)
      }),
    ])
    return merged(all, own)
  })
}

function filteredFields(query: string): string[] {
  const fields = parseTerms(query).flatMap((term) => term.field ?? [])
  return [...new Set(fields)].filter(
    (field) => !/^(message|_exists_|_missing_|\*|tags)$/.test(field),
  )
}

function merged(all: FacetsAnswer, own: FacetsAnswer[]): FacetsAnswer {
  const found = own.flatMap((answer) => answer.facets)
  const byName = new Map(found.map((facet) => [facet.name, facet]))
  const known = all.facets.map((facet) => {
    const one = byName.get(facet.name)
    byName.delete(facet.name)
    return one ?? facet
  })
  return { ...all, facets: [...known, ...byName.values()] }
}

export type FacetGroup = 'Common' | 'Tags' | 'Attributes'

const reserved = new Set([
  'status',
  'service',
  'host',
  'source',
  'source_id',
  'instance_id',
  'facility',
  'app_name',
  'procid',
  'msgid',
  'iostream',
  'trace_id',
  'span_id',
])

/** In this order at the top of the panel. */
const first = ['status', 'service', 'host', 'source']

export function groupOf(facet: FacetEntry): FacetGroup {
  if (facet.name.startsWith('@')) return 'Attributes'
  return reserved.has(facet.name) ? 'Common' : 'Tags'
}

/** What clients send beside a field of the same meaning says nothing new. */
const echoes: Record<string, string> = {
  '@service': 'service',
  '@status': 'status',
  '@level': 'status',
  '@hostname': 'host',
  '@host': 'host',
  '@ddtags': 'source',
}

export function facetsByGroup(entries: FacetEntry[]): Array<[FacetGroup, FacetEntry[]]> {
  const names = new Set(entries.map((facet) => facet.name))
  const shown = entries.filter((facet) => !names.has(echoes[facet.name] ?? ''))
  const place = (facet: FacetEntry) => {
    const at = first.indexOf(facet.name)
    return at < 0 ? first.length : at
  }
  const groups: FacetGroup[] = ['Common', 'Tags', 'Attributes']
  return groups.map((group) => [
    group,
    shown.filter((facet) => groupOf(facet) === group).sort((a, b) => place(a) - place(b)),
  ])
}

/** What the numbers of a field measure, as far as an answer said it. */
export const units = computed<Record<string, string>>(() => {
  const entries = facets.data.value?.facets ?? []
  return Object.fromEntries(
    entries.flatMap((facet) => (facet.unit ? [[facet.name, facet.unit]] : [])),
  )
})

export const numberFields = computed(() =>
  (facets.data.value?.facets ?? []).filter((facet) => facet.type === 'number'),
)
