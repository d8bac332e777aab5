import { expect, it } from 'vitest'
import { readRow } from './row'

it('a JSON body gives message, service and attributes', () => {
  const body = JSON.stringify({
    message: 'hi',
    service: 'web',
    hostname: 'h1',
    http: { method: 'GET' },
    ddtags: 'env:prod',
  })
  const row = readRow(
    '1',
    JSON.stringify({ timestamp: 't', severity_text: 'WARN', body, source: 's', stream: 'x' }),
  )
  expect(row.attributes).toMatchObject({
    message: 'hi',
    service: 'web',
    host: 'h1',
    status: 'warn',
    tags: ['env:prod'],
  })
  expect(row.attributes.attributes).toMatchObject({ http: { method: 'GET' } })
  expect(row.weir?.source).toBe('s')
})

it('a body of plain text is the message', () => {
  const row = readRow(
    '1',
    JSON.stringify({ timestamp: 't', body: '{not json', resource: { 'service.name': 'db' } }),
  )
  expect(row.attributes.message).toBe('{not json')
  expect(row.attributes.service).toBe('db')
  expect(row.attributes.status).toBe('none')
})

it('service and host are those of a search: a resource comes before the body', () => {
  const body = JSON.stringify({ message: 'hi', host: 'edge-1', service: { name: 'web' } })
  const resource = { 'host.name': 'vm', 'log.file.path': '/a.log' }
  const row = readRow('1', JSON.stringify({ timestamp: '', body, resource }))
  expect(row.attributes).toMatchObject({
    host: 'vm',
    service: 'web',
    tags: ['log.file.path:/a.log'],
  })
  expect(row.attributes.attributes.host).toBe('edge-1')
})

it('its lag is from its time to its arrival', () => {
  const times = {
    timestamp: '2026-01-01T00:00:00.5Z',
    observed_timestamp: '2026-01-01T00:00:01.250000001Z',
  }
  const row = readRow('1', JSON.stringify({ ...times, body: 'x' }))
  expect(row.weir).toMatchObject({ arrival: times.observed_timestamp, lag_ns: 750_000_001 })
  expect(readRow('1', '{"body":"x"}').weir?.lag_ns).toBeNull()
})

it('what cannot be read says so', () => {
  expect(readRow('7', '{broken').attributes.message).toContain('could not be parsed')
})
