import { expect, it } from 'vitest'
import type { FacetEntry } from '../api/schema'
import { usualGroup } from './group'

const facet = (name: string, ...values: string[]): FacetEntry => ({
  name,
  type: 'text',
  count: 1,
  distinct: values.length,
  values: values.map((value) => ({ value, count: 1 })),
})

it('outliers are services, and hosts of the one that is asked for', () => {
  const facets = [facet('host', 'vm'), facet('@host', 'edge-1', 'edge-2')]
  expect(usualGroup('', facets)).toBe('service')
  expect(usualGroup('-service:web', facets)).toBe('service')
  expect(usualGroup('service:(web OR api)', facets)).toBe('service')
  expect(usualGroup('status:error service:web', facets)).toBe('@host')
  expect(usualGroup('service:web', [facet('host', 'a', 'b')])).toBe('host')
  expect(usualGroup('service:web', [])).toBe('host')
})

it('where all records are of one host, outliers are what is behind it, or what was asked', () => {
  const host = facet('host', 'vm')
  const route = facet('@http.route', '/', '/cart')
  const upstream = facet('@upstream', 'web-1', 'web-2')
  expect(usualGroup('service:web', [host, route, upstream])).toBe('@upstream')
  expect(usualGroup('service:web', [host, route, facet('@upstream', 'web-1')])).toBe('@http.route')
  expect(usualGroup('service:web', [host, { ...route, distinct: 4_000 }])).toBe('host')
})
