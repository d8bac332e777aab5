// The heat map: time on the x axis, the value on a logarithmic y axis, stronger color for more
// records; beside it the distribution over the entire range. Each cell leads to its records.
import { useSignalEffect } from '@preact/signals'
import { useLayoutEffect, useRef, useState } from 'preact/hooks'
import { exact, measured, percent, short } from '../format/numbers'
import { brief } from '../format/times'
import { announce } from '../ui/notify'
import { color, themeVersion } from '../ui/theme'
import { useWidth } from '../ui/width'
import type { HeatMap } from './load'

export interface Cell {
  row: number
  column: number
}

interface HeatProps {
  map: HeatMap
  selected: Cell | undefined
  onSelect: (cell: Cell) => void
}

const height = 300
const left = 64
const bottom = 22
const side = 130

export function HeatMapView({ map, selected, onSelect }: HeatProps) {
  const canvas = useRef<HTMLCanvasElement>(null)
  const frame = useRef<HTMLDivElement>(null)
  const width = useWidth(frame, 800)
  const [pointed, setPointed] = useState<Cell | undefined>(undefined)
  const [look, setLook] = useState(0)
  useSignalEffect(() => setLook(themeVersion.value))

  useLayoutEffect(() => {
    if (canvas.current) draw(canvas.current, map, width)
  }, [map, width, look])

  const place = geometry(map, width)
  const shown = pointed ?? selected
  return (
    <div
      ref={frame}
      class="heat"
      role="group"
      aria-label="Heat map. Arrow keys move over its cells, Enter shows the records of one."
      tabIndex={0}
      style={{ height: `${height}px` }}
      onPointerMove={(event) => setPointed(cellAt(event, map, place))}
      onPointerLeave={() => setPointed(undefined)}
      onClick={(event) => {
        const cell = cellAt(event, map, place)
        if (cell) onSelect(cell)
      }}
      onKeyDown={(event) => {
        const next = moved(event, shown, map)
        if (next) {
          setPointed(next)
          announce(textOf(map, next))
        } else if (event.key === 'Enter' && shown) onSelect(shown)
      }}
    >
      <canvas ref={canvas} />
      {shown && <Frame cell={shown} place={place} />}
      {pointed && <HeatTip map={map} cell={pointed} place={place} width={width} />}
    </div>
  )
}

interface Place {
  cellWidth: number
  plotWidth: number
  /** Where each step begins, pixels from the top, and where the last one ends. */
  edges: number[]
  /** Heights of the steps as parts of a power of ten, by which counts become densities. */
  decades: number[]
}

/** What is below all powers of ten is drawn as so much of one. */
const belowHeight = 0.12

function geometry(map: HeatMap, width: number): Place {
  const plotWidth = Math.max(80, width - left - (width > 700 ? side : 0))
  const decades = map.steps.map((step) =>
    step.low > 0 ? Math.log10(step.high / step.low) : belowHeight,
  )
  const all = decades.reduce((sum, one) => sum + one, 0) || 1
  const edges = [height - bottom]
  for (const one of decades) edges.push((edges.at(-1) ?? 0) - (one / all) * (height - bottom))
  return { plotWidth, cellWidth: plotWidth / Math.max(1, map.times.length), edges, decades }
}

/** Top and height of a step. */
function rowOf({ edges }: Place, at: number): { y: number; tall: number } {
  const y = edges[at + 1] ?? 0
  return { y, tall: (edges[at] ?? 0) - y }
}

function draw(canvas: HTMLCanvasElement, map: HeatMap, width: number): void {
  const ratio = window.devicePixelRatio || 1
  canvas.width = width * ratio
  canvas.height = height * ratio
  canvas.style.width = `${width}px`
  canvas.style.height = `${height}px`
  const context = canvas.getContext('2d')
  if (!context) return
  context.scale(ratio, ratio)
  const place = geometry(map, width)
  drawCells(context, map, place)
  drawAxes(context, map, place)
  if (width > 700) drawDistribution(context, map, place)
}

function drawCells(context: CanvasRenderingContext2D, map: HeatMap, place: Place): void {
  context.fillStyle = color('--series-1')
  const density = (count: number, at: number) => Math.log1p(count / (place.decades[at] ?? 1))
  const most = Math.max(...map.counts.map((row, at) => density(Math.max(...row), at)), 1e-9)
  map.counts.forEach((row, at) => {
    const { y, tall } = rowOf(place, at)
    row.forEach((count, column) => {
      if (count === 0) return
      context.globalAlpha = 0.1 + 0.9 * (density(count, at) / most)
      const x = left + column * place.cellWidth
      context.fillRect(x, y, Math.max(1, place.cellWidth - 0.5), Math.max(1, tall - 0.5))
    })
  })
  context.globalAlpha = 1
}

/** With up to two powers of ten, the axis also has labels at twice and five times each of them. */
const fewSteps = 19

function drawAxes(context: CanvasRenderingContext2D, map: HeatMap, place: Place): void {
  context.font = '11px system-ui, sans-serif'
  context.fillStyle = color('--axis')
  context.strokeStyle = color('--line')
  context.textBaseline = 'middle'
  context.textAlign = 'right'
  const labelled = map.steps.length > fewSteps ? [0] : [0, 1, 4]
  map.steps.forEach((step, at) => {
    if (at === 0 || !labelled.includes((at - 1) % 9)) return
    const y = place.edges[at] ?? 0
    context.fillText(measured(step.low, map.unit), left - 8, y)
    context.beginPath()
    context.moveTo(left, y + 0.5)
    context.lineTo(left + place.plotWidth, y + 0.5)
    context.stroke()
  })
  context.textAlign = 'left'
  const every = Math.ceil(map.times.length / Math.max(2, Math.floor(place.plotWidth / 110)))
  map.times.forEach((time, at) => {
    if (at % every !== 0) return
    context.fillText(
      brief(time).replace(/^\d+ \w+ /, ''),
      left + at * place.cellWidth,
      height - bottom / 2,
    )
  })
}

function drawDistribution(context: CanvasRenderingContext2D, map: HeatMap, place: Place): void {
  const sums = map.counts.map((row) => row.reduce((all, one) => all + one, 0))
  const densities = sums.map((sum, at) => sum / (place.decades[at] ?? 1))
  const most = Math.max(1, ...densities)
  const begin = left + place.plotWidth + 10
  context.fillStyle = color('--series-1')
  context.globalAlpha = 0.75
  densities.forEach((density, at) => {
    const { y, tall } = rowOf(place, at)
    context.fillRect(begin, y, (density / most) * (side - 14), Math.max(1, tall - 0.5))
  })
  context.globalAlpha = 1
  context.fillStyle = color('--axis')
  context.textAlign = 'left'
  context.fillText('entire range', begin, height - bottom / 2)
}

function cellAt(event: MouseEvent, map: HeatMap, place: Place): Cell | undefined {
  const box = (event.currentTarget as HTMLElement).getBoundingClientRect()
  const column = Math.floor((event.clientX - box.left - left) / place.cellWidth)
  const y = event.clientY - box.top
  const row = map.steps.findIndex(
    (_, at) => y < (place.edges[at] ?? 0) && y >= (place.edges[at + 1] ?? 0),
  )
  const inside = column >= 0 && column < map.times.length && row >= 0 && row < map.steps.length
  return inside ? { row, column } : undefined
}

function moved(event: KeyboardEvent, from: Cell | undefined, map: HeatMap): Cell | undefined {
  const by: Record<string, [number, number]> = {
    ArrowUp: [1, 0],
    ArrowDown: [-1, 0],
    ArrowLeft: [0, -1],
    ArrowRight: [0, 1],
  }
  const step = by[event.key]
  if (!step) return undefined
  event.preventDefault()
  const start = from ?? { row: 0, column: -1 }
  return {
    row: Math.max(0, Math.min(map.steps.length - 1, start.row + step[0])),
    column: Math.max(0, Math.min(map.times.length - 1, start.column + step[1])),
  }
}

function textOf(map: HeatMap, { row, column }: Cell): string {
  const step = map.steps[row]
  const count = map.counts[row]?.[column] ?? 0
  const range = `${measured(step?.low ?? 0, map.unit)} to ${measured(step?.high ?? 0, map.unit)}`
  return `${brief(map.times[column] ?? 0)}, ${range}: ${exact(count)} records`
}

function Frame({ cell, place }: { cell: Cell; place: Place }) {
  const { y, tall } = rowOf(place, cell.row)
  const style = {
    left: `${left + cell.column * place.cellWidth}px`,
    top: `${y}px`,
    width: `${place.cellWidth}px`,
    height: `${tall}px`,
  }
  return <span class="heat-frame" style={style} />
}

interface TipProps {
  map: HeatMap
  cell: Cell
  place: Place
  width: number
}

function HeatTip({ map, cell, place, width }: TipProps) {
  const step = map.steps[cell.row]
  const time = map.times[cell.column]
  if (!step || time === undefined) return null
  const count = map.counts[cell.row]?.[cell.column] ?? 0
  const all = map.counts.reduce((sum, row) => sum + (row[cell.column] ?? 0), 0)
  const x = left + (cell.column + 1) * place.cellWidth
  const style =
    x > width - 240 ? { right: `${width - x + place.cellWidth + 10}px` } : { left: `${x + 10}px` }
  return (
    <div class="tooltip" style={style} aria-hidden="true">
      <div class="quiet">
        {brief(time)} – {brief(time + map.step)}
      </div>
      <div>
        {measured(step.low, map.unit)} to {measured(step.high, map.unit)}
      </div>
      <div>
        <strong>{short(count)}</strong> records, {percent(count / Math.max(all, 1))} of this time
      </div>
    </div>
  )
}
