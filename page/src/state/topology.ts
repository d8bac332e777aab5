// Weir's state, for every screen: the process, its health, and the pipeline as a graph whose nodes
// have their books. It is a snapshot that a stream of changes updates each second; without a stream
// it is polled. Nothing is requested while the page is hidden.
import { batch, signal } from '@preact/signals'
import { address, asProblem, get, isAbort, type Problem, signInNeeded } from '../api/client'
import { readStream, type ServerEvent } from '../api/events'
import type { TopologyChange, TopologyDocument } from '../api/schema'
import { seesEverything } from './session'

export const topology = signal<TopologyDocument | undefined>(undefined)

/** The previous document of the same process, for rates. */
export const topologyBefore = signal<TopologyDocument | undefined>(undefined)

/** When the last document arrived, by the browser's clock. */
export const topologyAt = signal(0)

/** Why there is no newer one. */
export const topologyProblem = signal<Problem | undefined>(undefined)

/** How often a snapshot is requested and the stream is retried while it is disconnected. */
const retryEvery = 1_000

/** Follows the topology as long as the page is open. */
export function watchTopology(): void {
  let current = new AbortController()
  function begin() {
    current.abort()
    current = new AbortController()
    if (!document.hidden) follow(current.signal)
  }
  begin()
  document.addEventListener('visibilitychange', begin)
}

async function follow(signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    if (!signInNeeded.peek() && seesEverything.peek()) {
      await streamed(signal).catch(() => undefined)
      await polled(signal).catch(note)
    }
    await new Promise((resolve) => window.setTimeout(resolve, retryEvery))
  }
}

async function streamed(signal: AbortSignal): Promise<void> {
  const handlers = { opened: () => undefined, events: take }
  await readStream(address('/weir/v1/topology/stream'), '', handlers, signal)
}

async function polled(signal: AbortSignal): Promise<void> {
  if (!signal.aborted) show(await get('/weir/v1/topology', {}, signal))
}

function note(error: unknown): void {
  if (!isAbort(error)) topologyProblem.value = asProblem(error)
}

function take(events: ServerEvent[]): void {
  for (const { event, data } of events) {
    if (event === 'snapshot') show(JSON.parse(data) as TopologyDocument)
    const before = topology.peek()
    if (event === 'change' && before) show(merged(before, JSON.parse(data) as TopologyChange))
  }
}

function show(next: TopologyDocument): void {
  const before = topology.peek()
  // After a restart counters start again, and so do rates.
  const same = before?.process.started_unix_ns === next.process.started_unix_ns
  batch(() => {
    topologyBefore.value = same ? before : undefined
    topology.value = next
    topologyAt.value = Date.now()
    topologyProblem.value = undefined
  })
}

/** A document with what has changed since. */
export function merged(document: TopologyDocument, change: TopologyChange): TopologyDocument {
  const { time, time_unix_ns, nodes, edges, removed } = change
  return {
    ...document,
    time,
    time_unix_ns,
    process: change.process ?? document.process,
    health: change.health ?? document.health,
    inactive: change.inactive ?? document.inactive,
    nodes: mergedById(document.nodes, nodes, removed),
    edges: mergedById(document.edges, edges, removed),
  }
}

/** Existing items keep their positions; new ones are appended. */
function mergedById<Item extends { id: string }>(
  items: Item[],
  changed: Item[],
  removed: string[],
): Item[] {
  const found = new Map(items.map((item) => [item.id, item]))
  for (const id of removed) found.delete(id)
  for (const item of changed) found.set(item.id, item)
  return [...found.values()]
}
