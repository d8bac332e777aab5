// The topology as boxes and lines: widths show rates, colors show states, and back pressure is
// marked from the full output to the sources that it blocks.
import { useRef } from 'preact/hooks'
import { percent, rate, seconds, short } from '../format/numbers'
import { go, parameter } from '../state/location'
import { Icon } from '../ui/icon'
import { Sparkline } from '../ui/sparkline'
import { useWidth } from '../ui/width'
import { history, steady } from './history'
import type { Edge, PipelineNode, Topology } from './topology'

export const openNode = parameter('node')

const nodeWidth = 218
const nodeHeight = 98
const rowGap = 14

const columnGap = 48

/** Where there is less, it scrolls. */
function leastWidth(columns: number): number {
  return columns * (nodeWidth + columnGap) - columnGap
}

interface Box {
  x: number
  y: number
}

export function TopologyView({ topology }: { topology: Topology }) {
  const frame = useRef<HTMLDivElement>(null)
  const width = useWidth(frame, 900)
  const { boxes, height } = layout(topology, width)
  return (
    <section class="panel" aria-label="Topology">
      <header>
        <h2>Where records go</h2>
        {topology.chain ? (
          <span class="badge bad">
            <Icon name="warning" /> {topology.chain}
          </span>
        ) : (
          <span class="quiet">no back pressure</span>
        )}
      </header>
      <div class="topology-box">
        <div
          ref={frame}
          class="topology"
          style={{ height: `${height}px`, minWidth: `${leastWidth(topology.columns.length)}px` }}
        >
          <svg width={width} height={height} aria-hidden="true">
            {topology.edges.map((edge) => (
              <EdgeLine
                key={`${edge.from} ${edge.to}`}
                edge={edge}
                from={boxes.get(edge.from)}
                to={boxes.get(edge.to)}
              />
            ))}
          </svg>
          {topology.columns.flat().map((node) => (
            <NodeBox key={node.id} node={node} box={boxes.get(node.id)} />
          ))}
        </div>
      </div>
    </section>
  )
}

function layout({ columns }: Topology, width: number): { boxes: Map<string, Box>; height: number } {
  const boxes = new Map<string, Box>()
  const rows = Math.max(...columns.map((column) => column.length), 1)
  const height = rows * (nodeHeight + rowGap) - rowGap
  const stride = columns.length > 1 ? (width - nodeWidth) / (columns.length - 1) : 0
  columns.forEach((column, at) => {
    const used = column.length * (nodeHeight + rowGap) - rowGap
    column.forEach((node, row) => {
      boxes.set(node.id, { x: at * stride, y: (height - used) / 2 + row * (nodeHeight + rowGap) })
    })
  })
  return { boxes, height }
}

function EdgeLine({ edge, from, to }: { edge: Edge; from: Box | undefined; to: Box | undefined }) {
  if (!from || !to) return null
  const [x1, y1] = [from.x + nodeWidth, from.y + nodeHeight / 2]
  const [x2, y2] = [to.x, to.y + nodeHeight / 2]
  const bend = (x2 - x1) / 2
  const flow = edge.rate ? (steady(edge.rate) ?? 0) : 0
  const path = `M${x1} ${y1}C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}`
  return (
    <path
      class={`edge${edge.blocked ? ' blocked' : flow > 0 || !edge.rate ? ' moves' : ''}`}
      d={path}
      stroke-width={1.5 + Math.min(6, Math.log10(1 + flow) * 1.5)}
    />
  )
}

function NodeBox({ node, box }: { node: PipelineNode; box: Box | undefined }) {
  const flow = node.rate ? steady(node.rate) : undefined
  const open = openNode.value === node.id
  return (
    <button
      type="button"
      class={`node ${node.state.tone}`}
      style={{
        left: `${box?.x ?? 0}px`,
        top: `${box?.y ?? 0}px`,
        width: `${nodeWidth}px`,
        height: `${nodeHeight}px`,
      }}
      aria-expanded={open}
      onClick={() => go({ node: open ? null : node.id }, { replace: true })}
    >
      <span class="node-head">
        <span class={`dot ${node.state.tone}`} />
        <strong>{node.name}</strong>
        {node.type !== node.name && <small>{node.type}</small>}
      </span>
      <span class="node-line">
        {node.rate ? (
          <>
            <span class="node-rate">{flow === undefined ? '…' : rate(flow)}</span>
            <Sparkline
              values={history.value[node.rate] ?? []}
              label={`rate of ${node.name}`}
              width={84}
              height={18}
            />
          </>
        ) : (
          <span class="quiet">{node.state.text}</span>
        )}
        {node.lost > 0 && <span class="badge bad">{short(node.lost)} lost</span>}
      </span>
      <span class="node-foot">
        {node.rate && <span>{node.state.text}</span>}
        {node.lag >= 1 && <span>lag {seconds(node.lag)}</span>}
        {node.fill !== undefined && node.fill > 0 && <span>{percent(node.fill)} full</span>}
      </span>
      {node.fill !== undefined && (
        <span class="node-fill">
          <span style={{ width: `${Math.min(100, node.fill * 100)}%` }} />
        </span>
      )}
    </button>
  )
}
