// Saved views and recent queries. Weir stores them, so they are the same in every browser; if it
// cannot, they last until the page is closed.
import { signal } from '@preact/signals'
import { asProblem, change, get, type Problem } from '../api/client'
import type { SavedView, ViewsDocument } from '../api/schema'
import { mayChange } from './session'

export type View = SavedView

export const views = signal<View[]>([])
export const queriesBefore = signal<string[]>([])

/** Why the last request has failed; what is listed may then be outdated. */
export const viewsProblem = signal<Problem | undefined>(undefined)

const kept = 50
const viewsPath = '/weir/v1/views'

let reading: Promise<boolean> | undefined

/** Loads views and queries. */
export function loadViews(): Promise<boolean> {
  reading = taken(get(viewsPath, {}))
  return reading
}

/** Waits until recent queries have been loaded once. */
export async function queriesRead(): Promise<void> {
  await (reading ?? loadViews())
}

export async function saveView(name: string, search: string): Promise<boolean> {
  return taken(change('PUT', pathOf(name), { search }))
}

export async function removeView(name: string): Promise<boolean> {
  return taken(change('DELETE', pathOf(name)))
}

/** Adds a query to the recent ones, in the page at once and in weir. */
export function remember(query: string): void {
  if (!query || queriesBefore.peek()[0] === query) return
  const others = queriesBefore.peek().filter((one) => one !== query)
  queriesBefore.value = [query, ...others].slice(0, kept)
  if (mayChange.peek()) change('POST', '/weir/v1/queries', { query }).catch(() => undefined)
}

export async function forgetQueries(): Promise<boolean> {
  return taken(change('DELETE', '/weir/v1/queries'))
}

function pathOf(name: string): string {
  return `${viewsPath}/${encodeURIComponent(name)}`
}

async function taken(answer: Promise<ViewsDocument>): Promise<boolean> {
  try {
    const found = await answer
    views.value = found.views
    queriesBefore.value = found.queries
    viewsProblem.value = undefined
    return true
  } catch (error) {
    viewsProblem.value = asProblem(error)
    return false
  }
}
