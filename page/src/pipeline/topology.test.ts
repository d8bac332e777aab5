import { expect, it } from 'vitest'
import type { TopologyDocument, TopologyNode } from '../api/schema'
import { merged } from '../state/topology'
import { nodeOf } from '../state/topology-node'
import { topologyOf } from './topology'

function edge(from: string, to: string, records = 0) {
  return { id: `${from}>${to}`, from, to, records }
}

/** Two sources, rules, and two outputs. */
function documentOf(...changed: TopologyNode[]): TopologyDocument {
  const document: TopologyDocument = {
    schema: 'weir.topology.v1',
    time: '',
    time_unix_ns: 1,
    process: { version: '1', started_unix_ns: 0, cpu_seconds: 2, resident_bytes: 3 },
    health: { status: 'ok', reasons: [] },
    inactive: [],
    nodes: [
      nodeOf('source:a', 'source'),
      nodeOf('source:b', 'source'),
      nodeOf('rules', 'rules'),
      nodeOf('journal', 'journal'),
      nodeOf('output:x', 'output'),
      nodeOf('output:y', 'store'),
    ],
    edges: [
      edge('source:a', 'rules'),
      edge('source:b', 'rules'),
      edge('rules', 'journal'),
      edge('journal', 'output:x'),
      edge('journal', 'output:y'),
    ],
  }
  const { time, time_unix_ns } = document
  return merged(document, { time, time_unix_ns, nodes: changed, edges: [], removed: [] })
}

function blockedOf(document: TopologyDocument): string[] {
  const edges = topologyOf(document, undefined).edges.filter((one) => one.blocked)
  return edges.map(({ from, to }) => `${from}>${to}`)
}

it('back pressure is drawn from the source to what blocks it, and nowhere else', () => {
  const document = documentOf(
    nodeOf('source:a', 'source', { state: 'blocked', blocked_by: 'output:x' }),
    nodeOf('output:x', 'output', { state: 'blocking' }),
  )
  expect(blockedOf(document)).toEqual(['source:a>rules', 'rules>journal', 'journal>output:x'])
  const { chain, columns } = topologyOf(document, undefined)
  expect(chain).toBe('x is full and blocks a')
  expect(columns[0]?.map(({ state }) => state.text)).toEqual(['blocked by x', 'reading'])
})

it('an output that is full is shown before a source is blocked; a failing disk blocks, too', () => {
  const full = documentOf(nodeOf('output:x', 'output', { state: 'blocking' }))
  expect(blockedOf(full)).toEqual(['journal>output:x'])
  expect(topologyOf(full, undefined).chain).toBe('x is full and blocks what feeds it')
  const failing = documentOf(
    nodeOf('source:b', 'source', { state: 'blocked', blocked_by: 'journal' }),
    nodeOf('journal', 'journal', { state: 'failing' }),
  )
  expect(blockedOf(failing)).toEqual(['source:b>rules', 'rules>journal'])
  expect(topologyOf(failing, undefined).chain).toBe('journal fails and blocks b')
  expect(topologyOf(documentOf(), undefined).chain).toBeUndefined()
})

it('what lags is drawn behind the drains that it was moved from', () => {
  const document = documentOf(
    nodeOf('output:drains', 'drains'),
    nodeOf('output:drains/lagging', 'drains', { waiting: 3 }),
    nodeOf('readers:egress', 'readers'),
  )
  const { columns } = topologyOf(document, undefined)
  expect(columns.at(-2)?.map(({ name }) => name)).toEqual(['x', 'y', 'drains', 'egress'])
  expect(columns.at(-1)?.map(({ state }) => state.text)).toEqual(['catching up'])
})

it('a change replaces what differs, adds what is new, and removes what is gone', () => {
  const before = documentOf()
  const after = merged(before, {
    time: 'later',
    time_unix_ns: 2,
    nodes: [nodeOf('source:b', 'source', { sent: 7 }), nodeOf('output:z', 'output')],
    edges: [edge('source:b', 'rules', 7), edge('journal', 'output:z')],
    removed: ['output:x', 'journal>output:x'],
  })
  expect([after.time, after.time_unix_ns, after.schema]).toEqual(['later', 2, 'weir.topology.v1'])
  const ids = ['source:a', 'source:b', 'rules', 'journal', 'output:y', 'output:z']
  expect(after.nodes.map(({ id }) => id)).toEqual(ids)
  expect(after.nodes[1]?.sent).toBe(7)
  expect(after.nodes[0]).toBe(before.nodes[0])
  expect(after.edges.map(({ id, records }) => `${id} ${records}`)).toEqual([
    'source:a>rules 0',
    'source:b>rules 7',
    'rules>journal 0',
    'journal>output:y 0',
    'journal>output:z 0',
  ])
  expect(before.nodes.length).toBe(6)
})
