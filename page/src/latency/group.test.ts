import { expect, it } from 'vitest'
import type { FacetEntry } from '../api/schema'
import { usualGroup } from './group'

const facet = (name: string, ...values: string[]): FacetEntry => ({
  name,
  type: 'text',
  count: 1,
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
