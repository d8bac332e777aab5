// The only access to weir's API: typed requests, errors as problem documents, and whether weir can
// be reached and requires this user to sign in.
import { signal } from '@preact/signals'
import { parseExact } from './exact'
import type { GetAnswers, GetQueries, PostAnswers, PostBodies, ProblemDocument } from './schema'

/** The address of the page, possibly below a path prefix; screens are one level deep. */
const root = new URL('.', document.baseURI)

export type Reach = 'unknown' | 'reached' | 'unreachable'

/** Whether the last request reached weir. */
export const reach = signal<Reach>('unknown')

/** Whether weir requires this reader to sign in. */
export const signInNeeded = signal(false)

/** By how much weir's clock is ahead of the browser's, milliseconds; 0 while they agree. */
export const clockSkew = signal(0)

export type ProblemKind = 'unreachable' | 'refused' | 'busy' | 'failed'

/** Why a request has no answer. */
export class Problem extends Error {
  constructor(
    readonly kind: ProblemKind,
    readonly document: ProblemDocument,
  ) {
    super(document.title)
  }
}

/** The path of the page, with the prefix of a proxy in front of it. */
export const rootPath = root.pathname

export function address(path: string, query: object = {}): string {
  const url = new URL(path.replace(/^\//, ''), root)
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined && value !== null && value !== '')
      url.searchParams.set(name, `${value}`)
  }
  return url.href
}

export async function get<Path extends keyof GetAnswers>(
  path: Path,
  query: GetQueries[Path],
  signal?: AbortSignal,
): Promise<GetAnswers[Path]> {
  const response = await open(address(path, query), { signal: signal ?? null })
  return (await answerOf(path, response)) as GetAnswers[Path]
}

export async function post<Path extends keyof PostAnswers>(
  path: Path,
  body: PostBodies[Path],
  signal?: AbortSignal,
): Promise<PostAnswers[Path]> {
  const response = await open(address(path), {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
    signal: signal ?? null,
  })
  return (await answerOf(path, response)) as PostAnswers[Path]
}

/** Responses that contain values of records. */
const withValues = new Set([
  '/api/v2/logs/events/search',
  '/api/v2/logs/analytics/aggregate',
  '/weir/v1/context',
  '/weir/v1/facets',
  '/weir/v1/values',
])

async function answerOf(path: string, response: Response): Promise<unknown> {
  return withValues.has(path) ? parseExact(await response.text()) : response.json()
}

/** Sends a change to a path with its parameters filled in. The caller knows its response. */
export async function change<Answer>(
  method: 'POST' | 'PUT' | 'DELETE',
  path: string,
  body?: object,
): Promise<Answer> {
  const sent = body && {
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  }
  const response = await open(address(path), { method, ...sent })
  return (await response.json()) as Answer
}

/** Sends a request, and returns the response if it is successful. */
export async function open(url: string, init: RequestInit): Promise<Response> {
  let response: Response
  try {
    response = await fetch(url, init)
  } catch (error) {
    if (isAbort(error)) throw error
    reach.value = 'unreachable'
    throw new Problem('unreachable', titled(0, 'weir is not responding'))
  }
  noteClock(response)
  if (response.ok) {
    reach.value = 'reached'
    return response
  }
  throw await problemOf(response)
}

export function isAbort(error: unknown): boolean {
  return error instanceof DOMException && error.name === 'AbortError'
}

/** Converts any error to a problem, so that all are shown in the same way. */
export function asProblem(error: unknown): Problem {
  if (error instanceof Problem) return error
  return new Problem('failed', titled(0, error instanceof Error ? error.message : String(error)))
}

async function problemOf(response: Response): Promise<Problem> {
  const gateway = response.status === 502 || response.status === 504
  reach.value = gateway ? 'unreachable' : 'reached'
  if (gateway) return new Problem('unreachable', titled(response.status, 'weir is not responding'))
  const document = await problemDocument(response)
  if (response.status === 401) signInNeeded.value = true
  if (response.status === 429 || response.status === 503) return new Problem('busy', document)
  return new Problem(response.status < 500 ? 'refused' : 'failed', document)
}

async function problemDocument(response: Response): Promise<ProblemDocument> {
  try {
    const body: unknown = await response.json()
    if (isProblem(body)) return body
    if (typeof body === 'object' && body && 'weir' in body && isProblem(body.weir)) return body.weir
  } catch {
    // Not JSON: it is from a proxy, and only the status is known.
  }
  return titled(response.status, `the response is ${response.status} ${response.statusText}`.trim())
}

function isProblem(value: unknown): value is ProblemDocument {
  return typeof value === 'object' && value !== null && 'title' in value
}

function titled(status: number, title: string): ProblemDocument {
  return { type: 'about:blank', status, title }
}

/** Latency and rounding are not clock skew. */
const skewIgnored = 2_000

function noteClock(response: Response): void {
  const date = Date.parse(response.headers.get('date') ?? '')
  if (Number.isNaN(date)) return
  const skew = date - Date.now()
  const shown = Math.abs(skew) < skewIgnored ? 0 : skew
  if (Math.abs(shown - clockSkew.peek()) > 1_000 || shown === 0) clockSkew.value = shown
}

/** The time by weir's clock, milliseconds. */
export function now(): number {
  return Date.now() + clockSkew.peek()
}
