import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { findStored } from './stored'

const asked: string[] = []
let answers: Array<{ status: number; body: object }> = []

beforeEach(() => {
  vi.useFakeTimers()
  asked.length = 0
  vi.stubGlobal('fetch', async (url: string) => {
    asked.push(new URL(url).search)
    const { status, body } = answers.shift() ?? { status: 404, body: { title: 'not there' } }
    return new Response(JSON.stringify({ status, ...body }), { status })
  })
})

afterEach(() => {
  vi.useRealTimers()
  vi.unstubAllGlobals()
})

async function found(): Promise<unknown> {
  const finding = findStored('an-id', new AbortController().signal)
  await vi.runAllTimersAsync()
  return finding
}

it('a row is asked for by its id until it is stored', async () => {
  answers = [
    { status: 404, body: { title: 'the record no longer exists' } },
    { status: 503, body: { title: 'the store is catching up' } },
    { status: 200, body: { record: { id: 'an-id' } } },
  ]
  expect(await found()).toEqual({ id: 'an-id' })
  expect(asked).toEqual(Array(3).fill('?id=an-id&before=0&after=0'))
})

it('without a store nothing is asked again', async () => {
  answers = [{ status: 409, body: { title: 'the store is disabled' } }]
  expect(await found()).toBeUndefined()
  expect(asked).toHaveLength(1)
})

it('a row that is never stored is given up', async () => {
  answers = []
  expect(await found()).toBeUndefined()
  expect(asked).toHaveLength(10)
})
