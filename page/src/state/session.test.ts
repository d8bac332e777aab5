import { afterEach, beforeEach, expect, it, vi } from 'vitest'

let role = ''
let asked: Array<{ method: string; path: string; body: unknown }> = []

beforeEach(() => {
  vi.resetModules()
  role = ''
  asked = []
  vi.stubGlobal('fetch', async (url: string, init: RequestInit) => {
    const method = init.method ?? 'GET'
    const body = init.body ? JSON.parse(`${init.body}`) : undefined
    asked.push({ method, path: new URL(url).pathname, body })
    if (method === 'POST' && body.token === 'right') role = 'developer'
    if (method === 'DELETE') role = ''
    const refused = { title: 'the token is not valid', status: 401 }
    if (!role && method !== 'DELETE') return Response.json(refused, { status: 401 })
    return Response.json({ schema: 'weir.session.v1', role: role || 'none' })
  })
})

afterEach(() => vi.unstubAllGlobals())

it('asks to sign in when weir refuses a request without a token', async () => {
  const { signInNeeded } = await import('../api/client')
  const { isSignedIn, loadSession, role } = await import('./session')
  expect(signInNeeded.value).toBe(false)
  await loadSession()
  expect(signInNeeded.value).toBe(true)
  expect(role.value).toBeUndefined()
  expect(isSignedIn.value).toBe(false)
})

it('signs in with a token, for the path of the page', async () => {
  const { signInNeeded } = await import('../api/client')
  const { isSignedIn, maySee, signIn } = await import('./session')
  expect((await signIn('wrong'))?.document.title).toBe('the token is not valid')
  expect(signInNeeded.value).toBe(true)
  expect(await signIn(' bearer right\n')).toBeUndefined()
  expect(asked[1]?.body).toEqual({ token: 'right', path: '/' })
  expect(signInNeeded.value).toBe(false)
  expect(isSignedIn.value).toBe(true)
  expect((['explore', 'live', 'pipeline', 'drains'] as const).map(maySee)).toEqual([
    true,
    true,
    false,
    true,
  ])
})

it('signs out', async () => {
  const { signInNeeded } = await import('../api/client')
  const { isSignedIn, signIn, signOut } = await import('./session')
  await signIn('right')
  expect(await signOut()).toBeUndefined()
  expect(asked.at(-1)?.method).toBe('DELETE')
  expect(isSignedIn.value).toBe(false)
  expect(signInNeeded.value).toBe(true)
})

it('leaves nothing out without access control', async () => {
  role = 'anyone'
  const { isSignedIn, loadSession, mayChange, maySee } = await import('./session')
  expect(maySee('pipeline')).toBe(true)
  await loadSession()
  expect(maySee('pipeline')).toBe(true)
  expect(mayChange.value).toBe(true)
  expect(isSignedIn.value).toBe(false)
})
