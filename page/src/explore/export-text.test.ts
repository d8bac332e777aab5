import { expect, it } from 'vitest'
import { asLines, textLine } from './export-text'

const record = (message: string) =>
  JSON.stringify({
    id: '1',
    type: 'log',
    attributes: {
      timestamp: '2026-01-01T00:00:00.000Z',
      status: 'error',
      host: 'web-1',
      service: 'web',
      message,
      tags: [],
      attributes: {},
    },
  })

it('a record is one line, whatever is in its message', () => {
  expect(textLine(record('failed\n  at line 1'))).toBe(
    '2026-01-01T00:00:00.000Z error web-1 web failed\\n  at line 1\n',
  )
  expect(textLine('{"broken')).toBe('{"broken\n')
})

it('pieces may end anywhere, even in a character', async () => {
  const bytes = new TextEncoder().encode(`${record('größer')}\n${record('b')}\n`)
  const pieces = new ReadableStream({
    start(controller) {
      for (const byte of bytes) controller.enqueue(Uint8Array.of(byte))
      controller.close()
    },
  })
  const text = await new Response(pieces.pipeThrough(asLines())).text()
  expect(text.split('\n').map((line) => line.split(' ').at(-1))).toEqual(['größer', 'b', ''])
})
