import { expect, it } from 'vitest'
import type { FacetEntry } from '../api/schema'
import { partsIn, timesOf, totalAndService } from './pair'

const number = (name: string, unit: string | null = null): FacetEntry => ({
  name,
  type: 'number',
  count: 1,
  values: [],
  unit,
})

it('a service time and a queueing delay are known by their names, whatever unit these have', () => {
  expect(partsIn(['@score', '@queueing_delay_ms', '@service_time_ms'])).toEqual({
    service: '@service_time_ms',
    queueing: '@queueing_delay_ms',
  })
  expect(partsIn(['@network.unicorn.queueing_delay', '@network.unicorn.service_time'])).toEqual({
    service: '@network.unicorn.service_time',
    queueing: '@network.unicorn.queueing_delay',
  })
  expect(partsIn(['@service_time'])).toBeUndefined()
  expect(partsIn(['@queueing_delay_reason', '@service_time'])).toBeUndefined()
})

it('the two parts are of the same object', () => {
  expect(partsIn(['@db.service_time', '@web.queueing_delay', '@web.service_time'])).toEqual({
    service: '@web.service_time',
    queueing: '@web.queueing_delay',
  })
})

it('the whole time of nginx and of a program are found', () => {
  const nginx = ['@upstream_connect_time', '@upstream_response_time', '@request_time']
  expect(totalAndService(nginx)).toEqual(['@request_time', '@upstream_response_time'])
  expect(totalAndService(['@duration_ms', '@service_time_ms'])).toEqual([
    '@duration_ms',
    '@service_time_ms',
  ])
  expect(totalAndService(['@score', '@duration_ms'])).toBeUndefined()
})

it('a lag and a score are no times of requests', () => {
  const known = [number('@lag', 'ns'), number('@score'), number('@a_ms', 'ms'), number('@b_s', 's')]
  expect(timesOf(known)).toEqual(['@a_ms', '@b_s'])
  expect(timesOf(known.slice(0, 2))).toEqual(['@score'])
})
