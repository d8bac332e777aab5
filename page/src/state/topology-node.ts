// A node of a topology for tests, with all counts at zero.
import type { TopologyNode } from '../api/schema'

export function nodeOf(
  id: string,
  kind: TopologyNode['kind'],
  rest: Partial<TopologyNode> = {},
): TopologyNode {
  return {
    id,
    kind,
    name: id.replace(/^\w+:/, ''),
    type: '',
    state: 'ok',
    received: 0,
    sent: 0,
    discarded: {},
    dead_lettered: 0,
    waiting: 0,
    taken: 0,
    queue_bytes: 0,
    ...rest,
  }
}
