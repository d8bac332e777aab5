// Saved views and the queries of before. They are kept in this browser until weir keeps them.
import { listOf, stored } from './stored'

export interface View {
  name: string
  /** The query string of the page. */
  search: string
  saved: string
}

const isView = (value: unknown): value is View =>
  typeof value === 'object' &&
  value !== null &&
  'name' in value &&
  typeof value.name === 'string' &&
  'search' in value &&
  typeof value.search === 'string'

export const views = stored<View[]>('views', [], listOf(isView))

export function saveView(name: string, search: string): void {
  const others = views.peek().filter((view) => view.name !== name)
  views.value = [{ name, search, saved: new Date().toISOString() }, ...others]
}

export function removeView(name: string): void {
  views.value = views.peek().filter((view) => view.name !== name)
}

const isText = (value: unknown): value is string => typeof value === 'string'

export const queriesBefore = stored<string[]>('history', [], listOf(isText))

const kept = 50

export function remember(query: string): void {
  if (!query) return
  queriesBefore.value = [query, ...queriesBefore.peek().filter((one) => one !== query)].slice(
    0,
    kept,
  )
}
