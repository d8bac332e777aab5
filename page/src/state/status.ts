// What weir says of itself, asked for again and again: every second while somebody looks at the
// pipeline, now and then otherwise, not at all while the page is hidden.
import { computed, effect, signal } from '@preact/signals'
import { get, signInNeeded } from '../api/client'
import type { StatusDocument } from '../api/schema'
import { type Screen, screen } from './location'
import { createResource } from './resource'
import { seesEverything } from './session'

export const status = createResource<StatusDocument>()

/** The document before the last one, for rates. */
export const statusBefore = signal<StatusDocument | undefined>(undefined)

/** When the last document came, by the browser's clock. */
export const statusAt = signal(0)

const often = 1_000
/** The screens that show rates of the pipeline. */
const watched = new Set<Screen>(['pipeline', 'capacity'])
const seldom = 4_000

export function watchStatus(): void {
  let timer = 0
  async function ask() {
    window.clearTimeout(timer)
    const maySee = !signInNeeded.peek() && seesEverything.peek()
    if (!document.hidden && maySee) await load()
    timer = window.setTimeout(ask, watched.has(screen.peek()) ? often : seldom)
  }
  effect(() => {
    screen.value
    ask()
  })
  document.addEventListener('visibilitychange', () => {
    if (!document.hidden) ask()
  })
}

async function load(): Promise<void> {
  await status.ask(async (signal) => {
    const before = status.data.peek()
    const next = await get('/weir/v1/status', {}, signal)
    // After a restart counters begin anew, and rates with them.
    const same = before && before.uptime_seconds < next.uptime_seconds
    statusBefore.value = same ? before : undefined
    statusAt.value = Date.now()
    return next
  })
}

export interface Problems {
  status: string
  reasons: Array<{ component: string; text: string; since: string }>
}

/** The health part of the document, which its schema does not describe yet. */
export const health = computed<Problems | undefined>(() => {
  const found = status.data.value?.health
  if (typeof found !== 'object' || found === null) return undefined
  const { status: name, reasons } = found as Partial<Problems>
  return { status: name ?? 'unknown', reasons: reasons ?? [] }
})
