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

it('what cannot be read says so', () => {
  expect(readRow('7', '{broken').attributes.message).toContain('could not be parsed')
})
