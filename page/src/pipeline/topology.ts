// The pipeline as a graph in columns (sources, rules, journal, outputs), and which output blocks
// which sources.
import type { RulesDocument, TopologyDocument, TopologyEdge, TopologyNode } from '../api/schema'
import { bytes } from '../format/numbers'
import { deliveryState, isLate, laggingState, lossOf, type State } from './figures'

export interface PipelineNode {
  id: string
  kind: TopologyNode['kind']
  name: string
  type: string
  state: State
  /** Name of its rate in the history. */
  rate: string | undefined
  fill: number | undefined
  lag: number
  lost: number
  error: string | undefined
  received: number
  sent: number
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

/** What drains that lag have not sent yet is moved from the destination of all drains to this one. */
const lagging = 'output:drains/lagging'

export function topologyOf(document: TopologyDocument, rules: RulesDocument | undefined): Topology {
  const nodes = document.nodes.map((node) => nodeOf(node, rules))
  const column = (...kinds: PipelineNode['kind'][]) =>
    nodes.filter((node) => kinds.includes(node.kind) && node.id !== lagging)
  const columns = [
    column('source'),
    column('rules'),
    column('journal'),
    column('output', 'store', 'drains', 'readers'),
    nodes.filter((node) => node.id === lagging),
  ]
  // No history is kept of what readers get: the line to them is drawn at rest.
  const rates = new Map(nodes.map(({ id, kind, rate }) => [id, kind === 'readers' ? id : rate]))
  const blocked = blockedEdges(document)
  const edges = document.edges.map(({ id, from, to }) => ({
    from,
    to,
    rate: rates.get(to) ?? rates.get(from),
    blocked: blocked.has(id),
  }))
  const chain = chainText(document.nodes)
  return { columns: columns.filter((nodes) => nodes.length > 0), edges, chain }
}

/** Edges on the way from what is blocked to what blocks it, and those into what is full. */
function blockedEdges({ nodes, edges }: TopologyDocument): Set<string> {
  const full = nodes.filter(({ state }) => state === 'blocking').map(({ id }) => id)
  const found = new Set(edges.filter(({ to }) => full.includes(to)).map(({ id }) => id))
  for (const { id, blocked_by } of nodes) {
    if (!blocked_by) continue
    const behind = reached(id, edges, ({ from, to }) => [from, to])
    const before = reached(blocked_by, edges, ({ from, to }) => [to, from])
    for (const edge of edges) {
      if (behind.has(edge.from) && before.has(edge.to)) found.add(edge.id)
    }
  }
  return found
}

type Step = (edge: TopologyEdge) => [string, string]

/** The nodes that can be reached from one over edges, which have no cycles; itself included. */
function reached(start: string, edges: TopologyEdge[], step: Step): Set<string> {
  const found = new Set([start])
  for (let before = 0; before < found.size; ) {
    before = found.size
    for (const [at, next] of edges.map(step)) if (found.has(at)) found.add(next)
  }
  return found
}

function chainText(nodes: TopologyNode[]): string | undefined {
  const isCause = ({ id, state }: TopologyNode) =>
    state === 'blocking' || nodes.some((node) => node.blocked_by === id)
  const texts = nodes.filter(isCause).map((cause) => {
    const blocked = nodes.filter((node) => node.blocked_by === cause.id).map(({ name }) => name)
    const problem = cause.state === 'failing' ? 'fails' : 'is full'
    return `${cause.name} ${problem} and blocks ${blocked.join(', ') || 'what feeds it'}`
  })
  return texts.length > 0 ? texts.join('; ') : undefined
}

const types: Partial<Record<TopologyNode['kind'], string>> = {
  rules: 'route, change, drop',
  journal: 'memory, then disk',
  readers: 'readers',
}

function nodeOf(node: TopologyNode, rules: RulesDocument | undefined): PipelineNode {
  const { id, kind, queue_bytes, queue_bytes_max } = node
  const max = queue_bytes_max ?? 0
  const fill = max > 0 ? Math.min(1, queue_bytes / max) : 0
  const lag = node.lag_seconds ?? node.oldest_unacknowledged_seconds ?? 0
  return {
    id,
    kind,
    name: kind === 'rules' && rules ? `${rules.rules.length} rules` : node.name,
    type: types[kind] ?? node.type,
    state: stateOf(node, fill, lag),
    rate: ['rules', 'journal', 'readers'].includes(kind) ? undefined : id,
    fill: queue_bytes_max == null ? undefined : fill,
    lag,
    lost: lossOf(node.discarded).lost,
    error: node.last_error ?? undefined,
    received: node.received,
    sent: node.sent,
  }
}

function stateOf(node: TopologyNode, fill: number, lag: number): State {
  switch (node.state) {
    case 'blocked':
      return { tone: 'bad', text: `blocked by ${node.blocked_by?.replace(/^output:/, '') ?? ''}` }
    case 'blocking':
      return { tone: 'bad', text: 'full: blocking its sources' }
    case 'failing':
      return { tone: 'bad', text: node.kind === 'journal' ? 'disk failing' : 'failing' }
    case 'degraded':
      return { tone: 'caution', text: 'some files cannot be read' }
    case 'ok':
      return okState(node, fill, lag)
  }
}

function okState(node: TopologyNode, fill: number, lag: number): State {
  switch (node.kind) {
    case 'source':
      if (isLate(lag)) return { tone: 'caution', text: 'lagging' }
      return { tone: 'good', text: 'reading' }
    case 'rules':
      return { tone: 'good', text: 'active' }
    case 'journal':
      return { tone: 'good', text: `${bytes(node.queue_bytes)} on disk` }
    case 'readers':
      return { tone: 'good', text: `${bytes(node.queue_bytes)} waiting` }
    case 'output':
    case 'store':
    case 'drains':
      return node.id === lagging ? laggingState(fill, node.waiting) : deliveryState(fill, lag)
  }
}
