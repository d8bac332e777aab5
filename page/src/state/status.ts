// The books and figures of the pipeline by source and output, from its topology.
import { computed, type ReadonlySignal } from '@preact/signals'
import type { JournalEntry, OutputStatus, SourceStatus, TopologyDocument } from '../api/schema'
import { topology, topologyBefore } from './topology'

/** One reading of the process and of the books. */
export interface Status {
  version: string
  time: string
  time_unix_ns: number
  uptime_seconds: number
  cpu_seconds: number
  resident_bytes: number
  sources: SourceStatus[]
  /** Those that are no longer configured come last. */
  outputs: OutputStatus[]
  journal: JournalEntry | undefined
}

export const status: ReadonlySignal<Status | undefined> = computed(
  () => topology.value && statusOf(topology.value),
)

/** The one before, for rates. */
export const statusBefore: ReadonlySignal<Status | undefined> = computed(
  () => topologyBefore.value && statusOf(topologyBefore.value),
)

export const health = computed(() => topology.value?.health)

export function statusOf(document: TopologyDocument): Status {
  const { process, nodes, inactive, time, time_unix_ns } = document
  return {
    version: process.version,
    time,
    time_unix_ns,
    uptime_seconds: Math.max(0, time_unix_ns - process.started_unix_ns) / 1e9,
    cpu_seconds: process.cpu_seconds,
    resident_bytes: process.resident_bytes,
    sources: nodes.flatMap(({ source }) => source ?? []),
    outputs: [...nodes.flatMap(({ output }) => output ?? []), ...inactive],
    journal: nodes.find(({ journal }) => journal)?.journal ?? undefined,
  }
}
