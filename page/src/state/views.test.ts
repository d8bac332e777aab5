import { afterEach, beforeEach, expect, it, vi } from 'vitest'

let kept = { schema: 'weir.views.v1', views: [] as object[], queries: [] as string[] }
let asked: string[] = []
let fails = false

beforeEach(() => {
  vi.resetModules()
  kept = { schema: 'weir.views.v1', views: [], queries: [] }
  asked = []
  fails = false
  vi.stubGlobal('fetch', async (url: string, init: RequestInit) => {
    const path = new URL(url).pathname
    asked.push(`${init.method ?? 'GET'} ${path}`)
    if (fails) return Response.json({ title: 'cannot write' }, { status: 500 })
    const body = init.body ? JSON.parse(`${init.body}`) : undefined
    if (init.method === 'PUT') {
      const name = decodeURIComponent(path.split('/').at(-1) ?? '')
      kept.views = [{ name, search: body.search, saved: '' }, ...kept.views]
    }
    if (init.method === 'POST') kept.queries = [body.query, ...kept.queries]
    return Response.json(kept)
  })
})

afterEach(() => vi.unstubAllGlobals())

it('saves under any name, and keeps what weir answers', async () => {
  const { saveView, views } = await import('./views')
  expect(await saveView('a/b "c"', '?q=x')).toBe(true)
  expect(asked).toEqual(['PUT /weir/v1/views/a%2Fb%20%22c%22'])
  expect(views.value.map((view) => view.name)).toEqual(['a/b "c"'])
})

it('says why it could not save, and leaves the list as it was', async () => {
  const { saveView, views, viewsProblem } = await import('./views')
  fails = true
  expect(await saveView('a', '?q=x')).toBe(false)
  expect(viewsProblem.value?.document.title).toBe('cannot write')
  expect(views.value).toEqual([])
})

it('remembers a query once, at once', async () => {
  const { queriesBefore, remember } = await import('./views')
  for (const query of ['a', 'a', '', 'b', 'a']) remember(query)
  expect(queriesBefore.value).toEqual(['a', 'b'])
  expect(asked.filter((one) => one.startsWith('POST'))).toHaveLength(3)
})

it('reads the queries of before once', async () => {
  const { queriesBefore, queriesRead } = await import('./views')
  kept.queries = ['a']
  await queriesRead()
  await queriesRead()
  expect(queriesBefore.value).toEqual(['a'])
  expect(asked).toEqual(['GET /weir/v1/views'])
})
