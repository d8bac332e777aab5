// The matching records: the first page at once, and further ones while the user scrolls.
import { computed, signal } from '@preact/signals'
import { asProblem, isAbort, type Problem, post } from '../api/client'
import type { LogEntry, Meta, Sort } from '../api/schema'
import { parameter } from '../state/location'
import { filterOf, type Question } from './question'

/** A few screens at first, so that they arrive soon; then the maximum of the API. */
const firstPage = 200
const furtherPage = 1_000
/** More than anybody reads, and little enough memory for a phone. */
export const rowsMax = 100_000

const sortParameter = parameter('sort')

export const sort = computed<Sort>(() =>
  sortParameter.value === 'timestamp' ? 'timestamp' : '-timestamp',
)

export const rows = signal<LogEntry[]>([])
export const rowsMeta = signal<Meta | undefined>(undefined)
export const rowsProblem = signal<Problem | undefined>(undefined)
export const rowsLoading = signal(false)
export const moreLoading = signal(false)
/** From the question to the first rows, milliseconds. */
export const rowsTook = signal(0)

interface Asked {
  question: Question
  sort: Sort
  cursor: string | undefined
  abort: AbortController
}

let current: Asked | undefined

export const allLoaded = computed(() => {
  rows.value
  return rowsMeta.value !== undefined && !rowsMeta.value.page?.after
})

export async function loadRecords(question: Question, order: Sort): Promise<void> {
  current?.abort.abort()
  const mine: Asked = { question, sort: order, cursor: undefined, abort: new AbortController() }
  current = mine
  rowsLoading.value = true
  moreLoading.value = false
  const began = performance.now()
  try {
    const answer = await page(mine, firstPage)
    if (current !== mine) return
    rows.value = answer.data
    rowsMeta.value = answer.meta
    rowsProblem.value = undefined
    rowsTook.value = performance.now() - began
    mine.cursor = answer.meta.page?.after
  } catch (error) {
    if (isAbort(error) || current !== mine) return
    rowsProblem.value = asProblem(error)
  }
  rowsLoading.value = false
}

/** Loads the next page, if there is one and none is being loaded. */
export async function loadMore(): Promise<void> {
  const mine = current
  if (!mine?.cursor || moreLoading.peek() || rows.peek().length >= rowsMax) return
  moreLoading.value = true
  try {
    const answer = await page(mine, furtherPage)
    if (current !== mine) return
    rows.value = [...rows.peek(), ...answer.data]
    rowsMeta.value = answer.meta
    mine.cursor = answer.meta.page?.after
  } catch (error) {
    if (isAbort(error) || current !== mine) return
    rowsProblem.value = asProblem(error)
  }
  moreLoading.value = false
}

function page(asked: Asked, limit: number) {
  return post(
    '/api/v2/logs/events/search',
    {
      filter: filterOf(asked.question),
      sort: asked.sort,
      page: { limit, ...(asked.cursor ? { cursor: asked.cursor } : {}) },
      weir: { details: true, calculated_fields: asked.question.measures },
    },
    asked.abort.signal,
  )
}
