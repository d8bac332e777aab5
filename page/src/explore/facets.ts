// Fields of the matching records, with their values and counts. A field that the query filters by
// is counted without that filter, so that other values can be selected too.
import { computed } from '@preact/signals'
import { get } from '../api/client'
import type { FacetEntry, FacetsAnswer } from '../api/schema'
import { isTime, unitByName } from '../format/numbers'
import { quoteKey, unquoteKey } from '../query/quote'
import { parseTerms, withoutField } from '../query/terms'
import { createResource } from '../state/resource'
import { listOf, stored } from '../state/stored'
import { addressOf, type Question } from './question'

export interface Facets extends FacetsAnswer {
  /** The question that they answer. */
  asked: Question
}

export const facets = createResource<Facets>()

const fieldsMax = 60
const valuesMax = 10
/** Facets are worth waiting for a little longer than rows. */
const timeout = '5s'

/** Beyond this number of records, only open facets are counted, and others once they are opened. */
const countedWhole = 200_000
/** Numeric fields are counted anyway: their units and ranges are needed elsewhere. */
const numbersMax = 8

/** `matched` is the number of records, or infinite if it is unknown. */
export function loadFacets(question: Question, matched: number): Promise<void> {
  return facets.ask(async (signal) => {
    const filtered = filteredFields(question.query)
    const [all, ...own] = await Promise.all([
      matched > countedWhole ? someFacets(question, signal) : count(question, undefined, signal),
      ...filtered.map((field) => {
        const others = { ...question, query: withoutField(question.query, field) }
        return count(others, [field], signal)
      }),
    ])
    return { ...merged(all, own), asked: question }
  })
}

/** Counts values, of certain fields or of the most frequent ones. */
async function count(
  question: Question,
  names: string[] | undefined,
  signal: AbortSignal,
): Promise<FacetsAnswer> {
  const which = names ? { fields: names.map(quoteKey).join() } : { limit: fieldsMax }
  const asked = { ...addressOf(question), ...which, values: valuesMax, timeout }
  const answer = await get('/weir/v1/facets', asked, signal)
  return { ...answer, facets: answer.facets.map(facetOf) }
}

/** A facet with its plain name. Its ends are numbers to compute with, its values are exact. */
function facetOf(facet: FacetEntry): FacetEntry {
  const { name, min, max } = facet
  const ends = min == null || max == null ? {} : { min: Number(min), max: Number(max) }
  return { ...facet, ...ends, name: unquoteKey(name) }
}

/** All fields by name, of which only open and numeric ones are counted. */
async function someFacets(question: Question, signal: AbortSignal): Promise<FacetsAnswer> {
  const { from, to } = addressOf(question)
  const answer = await get('/weir/v1/fields', { from, to, limit: 200 }, signal)
  const fields = answer.fields.map(({ name, type }) => ({ name: unquoteKey(name), type }))
  const numbers = fields
    .filter((field) => field.type === 'number')
    .sort((a, b) => Number(isTimeByName(b.name)) - Number(isTimeByName(a.name)))
    .slice(0, numbersMax)
  const open = fields.filter((field) => isOpen(field.name))
  const own = fields.filter((field) => ownOpinion.has(field.name))
  const names = new Set([...open, ...numbers, ...own].map((field) => field.name))
  const counted = await count(question, [...names], signal)
  const byName = new Map(counted.facets.map((facet) => [facet.name, facet]))
  const entries = fields.map(
    ({ name, type }) => byName.get(name) ?? { name, type, count: 0, values: [] },
  )
  return { ...counted, facets: entries.filter((facet) => !isOpen(facet.name) || facet.count > 0) }
}

/** Durations are needed more often than other numbers. */
function isTimeByName(name: string): boolean {
  return isTime(unitByName(name)) || /time|delay|duration|latency|elapsed/.test(name)
}

/** Counts a single field that was not counted with the others. */
export async function loadFacet(question: Question, name: string, signal: AbortSignal) {
  const answer = await count(question, [name], signal)
  return answer.facets.find((facet) => facet.name === name)
}

const isText = (value: unknown): value is string => typeof value === 'string'

/** Facets that the user has opened (`+name`) or closed (`-name`). */
const touched = stored<string[]>('facets.open', [], listOf(isText))

const openAtFirst = new Set(['status', 'service', 'host', '@http.status_code', '@duration', 'env'])

export function isOpen(name: string): boolean {
  if (touched.value.includes(`+${name}`)) return true
  return openAtFirst.has(name) && !touched.value.includes(`-${name}`)
}

const touchedKept = 200

export function toggle(name: string): void {
  const sign = isOpen(name) ? '-' : '+'
  const others = touched.value.filter((one) => one.slice(1) !== name)
  touched.value = [...others, `${sign}${name}`].slice(-touchedKept)
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

/** These are at the top of the panel, in this order. */
const first = ['status', 'service', 'host', 'source']

export function groupOf(facet: FacetEntry): FacetGroup {
  if (facet.name.startsWith('@')) return 'Attributes'
  return reserved.has(facet.name) ? 'Common' : 'Tags'
}

/** Attributes that mostly repeat a common field. */
const echoes: Record<string, string> = {
  '@service': 'service',
  '@status': 'status',
  '@level': 'status',
  '@hostname': 'host',
  '@host': 'host',
  '@ddtags': 'source',
}

/** These can differ: a file can be on another host than the one that its records name. */
const ownOpinion = new Set(['@service', '@hostname', '@host'])

function differs(facet: FacetEntry, twin: FacetEntry): boolean {
  const known = new Set(twin.values.map((entry) => entry.value))
  return facet.values.some((entry) => !known.has(entry.value))
}

export function facetsByGroup(entries: FacetEntry[]): Array<[FacetGroup, FacetEntry[]]> {
  const byName = new Map(entries.map((facet) => [facet.name, facet]))
  const shown = entries.filter((facet) => {
    const twin = byName.get(echoes[facet.name] ?? '')
    return !twin || (ownOpinion.has(facet.name) && differs(facet, twin))
  })
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

/** Units of fields, as far as a response has stated them. */
const units = computed<Record<string, string>>(() => {
  const entries = facets.data.value?.facets ?? []
  return Object.fromEntries(
    entries.flatMap((facet) => (facet.unit ? [[facet.name, facet.unit]] : [])),
  )
})

/** The unit of a field, from a response or by its name. */
export function unitOf(name: string): string | undefined {
  return units.value[name] ?? unitByName(name)
}

export const numberFields = computed(() =>
  (facets.data.value?.facets ?? []).filter((facet) => facet.type === 'number'),
)
