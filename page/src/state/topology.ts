// The pipeline as a graph while somebody looks at it: a snapshot that a stream of changes keeps up to
// date, asked for again and again while there is no stream; nothing while the page is hidden.
import { signal } from '@preact/signals'
import { address, get, signInNeeded } from '../api/client'
import { readStream, type ServerEvent } from '../api/events'
import type { TopologyChange, TopologyDocument } from '../api/schema'

export const topology = signal<TopologyDocument | undefined>(undefined)

/** How often a snapshot is asked for, and the stream tried again, while it is cut. */
const retryEvery = 1_000

export function watchTopology(): () => void {
  let current = new AbortController()
  function begin() {
    current.abort()
    current = new AbortController()
    if (!document.hidden) follow(current.signal)
  }
  begin()
  document.addEventListener('visibilitychange', begin)
  return () => {
    document.removeEventListener('visibilitychange', begin)
    current.abort()
  }
}

async function follow(signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    if (!signInNeeded.peek()) {
      await streamed(signal).catch(() => undefined)
      await polled(signal).catch(() => undefined)
    }
    await new Promise((resolve) => window.setTimeout(resolve, retryEvery))
  }
}

async function streamed(signal: AbortSignal): Promise<void> {
  const handlers = { opened: () => undefined, events: take }
  await readStream(address('/weir/v1/topology/stream'), '', handlers, signal)
}

async function polled(signal: AbortSignal): Promise<void> {
  if (signal.aborted) return
  topology.value = await get('/weir/v1/topology', {}, signal)
}

function take(events: ServerEvent[]): void {
  for (const { event, data } of events) {
    if (event === 'snapshot') topology.value = JSON.parse(data) as TopologyDocument
    const before = topology.peek()
    if (event === 'change' && before) {
      topology.value = merged(before, JSON.parse(data) as TopologyChange)
    }
  }
}

/** A document with what has changed since. */
export function merged(document: TopologyDocument, change: TopologyChange): TopologyDocument {
  const { time, time_unix_ns, nodes, edges, removed } = change
  return {
    ...document,
    time,
    time_unix_ns,
    nodes: mergedById(document.nodes, nodes, removed),
    edges: mergedById(document.edges, edges, removed),
  }
}

/** What is there keeps its place; what is new comes last. */
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
