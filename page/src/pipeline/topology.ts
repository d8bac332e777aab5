// The pipeline as a graph in columns: sources, rules, the journal, outputs; and who blocks whom.
import type { RulesDocument, StatusDocument } from '../api/schema'
import { bytes } from '../format/numbers'
import { fillOf, lossOf, outputState, type State, sourceState } from './figures'

export interface PipelineNode {
  id: string
  kind: 'source' | 'rules' | 'journal' | 'output'
  name: string
  type: string
  state: State
  /** Name of its rate in the history. */
  rate: string | undefined
  fill: number | undefined
  lag: number
  lost: number
}

export interface Edge {
  from: string
  to: string
  rate: string | undefined
  blocked: boolean
}

export interface Topology {
  columns: PipelineNode[][]
  edges: Edge[]
  /** In words: which output stops which sources. */
  chain: string | undefined
}

export function topologyOf(document: StatusDocument, rules: RulesDocument | undefined): Topology {
  const sources = document.sources.map(sourceNode)
  const active = document.outputs.filter((output) => output.book.active)
  const outputs = active.filter((output) => !lagsBehind(output)).map(outputNode)
  const lagging = active.filter(lagsBehind).map(outputNode)
  const middle: PipelineNode[] = [journalNode(document)]
  const ruled = rules && rules.rules.length > 0 ? [rulesNode(rules)] : []
  const blocking = document.outputs
    .filter((output) => output.book.blocking)
    .map((output) => output.book.name)
  const blocked = blockedSources(document, blocking.length > 0)
  const behind = ruled.length > 0 ? 'rules' : 'journal'
  const edges: Edge[] = [
    ...sources.map((node) => edge(node.id, behind, node.rate, blocked.includes(node.name))),
    ...(ruled.length > 0 ? [edge('rules', 'journal', undefined, blocked.length > 0)] : []),
    ...outputs.map((node) => edge('journal', node.id, node.rate, blocking.includes(node.name))),
    ...lagging.map((node) => edge(`output:${drains}`, node.id, node.rate, false)),
  ]
  const columns = [sources, ruled, middle, outputs, lagging].filter((column) => column.length > 0)
  return { columns, edges, chain: chainText(blocking, blocked) }
}

/** The destination of all drains; what drains that lag have not sent yet is moved to another one. */
const drains = 'drains'

function lagsBehind({ book }: StatusDocument['outputs'][number]): boolean {
  return book.name === `${drains}/lagging`
}

function edge(from: string, to: string, rate: string | undefined, blocked: boolean): Edge {
  return { from, to, rate, blocked }
}

/** So late is a source that has something to read and does not get to it, seconds. */
const held = 5

/** Sources that are refused; while an output blocks, also those that do not read what there is. */
function blockedSources({ sources }: StatusDocument, isBlocking: boolean): string[] {
  return sources
    .filter((source) => source.blocked || (isBlocking && source.lag_seconds > held))
    .map((source) => source.book.name)
}

function chainText(blocking: string[], blocked: string[]): string | undefined {
  if (blocked.length === 0 && blocking.length === 0) return undefined
  const stops = blocked.length > 0 ? blocked.join(', ') : 'what feeds it'
  return `${blocking.join(', ') || 'the disk'} is full and blocks ${stops}`
}

function sourceNode(source: StatusDocument['sources'][number]): PipelineNode {
  const { book } = source
  return {
    id: `source:${book.name}`,
    kind: 'source',
    name: book.name,
    type: book.type,
    state: sourceState(source),
    rate: `source:${book.name}`,
    fill: undefined,
    lag: source.lag_seconds,
    lost: lossOf(book.book.discarded).lost,
  }
}

function outputNode(output: StatusDocument['outputs'][number]): PipelineNode {
  const { book } = output
  return {
    id: `output:${book.name}`,
    kind: 'output',
    name: book.name,
    type: book.type,
    state: outputState(output),
    rate: `output:${book.name}`,
    fill: fillOf(output),
    lag: book.lag_seconds,
    lost: lossOf(book.book.discarded).lost,
  }
}

function rulesNode(rules: RulesDocument): PipelineNode {
  return {
    id: 'rules',
    kind: 'rules',
    name: `${rules.rules.length} rules`,
    type: 'route, change, drop',
    state: { tone: 'good', text: 'active' },
    rate: undefined,
    fill: undefined,
    lag: 0,
    lost: 0,
  }
}

export interface Journal {
  ring_bytes: number
  ring_bytes_max: number
  disk_bytes: number
  disk_bytes_max: number
  disk_error: string | null
}

/** The journal's part of the document, which its schema does not describe yet. */
export function journalOf(document: StatusDocument): Journal {
  const found = document.journal as Partial<Journal> | null
  return {
    ring_bytes: found?.ring_bytes ?? 0,
    ring_bytes_max: found?.ring_bytes_max ?? 0,
    disk_bytes: found?.disk_bytes ?? 0,
    disk_bytes_max: found?.disk_bytes_max ?? 0,
    disk_error: found?.disk_error ?? null,
  }
}

function journalNode(document: StatusDocument): PipelineNode {
  const journal = journalOf(document)
  const fill = journal.disk_bytes_max > 0 ? journal.disk_bytes / journal.disk_bytes_max : 0
  const bad = journal.disk_error !== null
  return {
    id: 'journal',
    kind: 'journal',
    name: 'journal',
    type: 'memory, then disk',
    state: bad
      ? { tone: 'bad', text: 'disk failing' }
      : {
          tone: 'good',
          text: `${bytes(journal.ring_bytes)}, ${bytes(journal.disk_bytes)} on disk`,
        },
    rate: undefined,
    fill,
    lag: 0,
    lost: 0,
  }
}
