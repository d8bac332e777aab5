// A chart over time, with a tooltip, keyboard navigation, and a table as an alternative. The
// plotting library is fetched when the first chart is expected.
import { type Signal, signal, useSignalEffect } from '@preact/signals'
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks'
import type uPlot from 'uplot'
import { plainText } from '../format/log-text'
import { brief, full } from '../format/times'
import { zone, zoneName } from '../state/settings'
import type { Span } from '../time/range'
import { IconButton } from './button'
import { LogText } from './log-text'
import { announce } from './notify'
import type { PlotData, PlotKind } from './plot'
import { ScrollBox } from './scroll-box'
import { themeVersion } from './theme'

interface ChartProps extends PlotData {
  label: string
  kind: PlotKind
  height: number
  format: (value: number) => string
  /** Length of an interval, milliseconds. */
  step: number
  span?: Span
  asTable?: boolean
  onBrush?: (span: Span) => void
}

const plotting = signal<typeof import('./plot') | undefined>(undefined)
const plottingFailed = signal(false)

/** Fetches the plotting library, once. */
export function loadPlotting(): void {
  if (plotting.peek()) return
  import('./plot').then(
    (part) => {
      plotting.value = part
    },
    () => {
      plottingFailed.value = true
    },
  )
}

export function Chart(props: ChartProps) {
  return props.asTable || plottingFailed.value ? <ChartTable {...props} /> : <Plot {...props} />
}

interface Pointed {
  index: number
  left: number
}

function Plot(props: ChartProps) {
  const { times, series, kind, height, step, span, onBrush } = props
  const box = useRef<HTMLDivElement>(null)
  const plot = useRef<uPlot | undefined>(undefined)
  const [pointed, setPointed] = useState<Pointed | undefined>(undefined)
  const latest = useRef(props)
  latest.current = props
  const shape = `${kind} ${height} ${series.map((one) => one.label + one.color).join()}`
  const [look, setLook] = useState(0)
  useSignalEffect(() => setLook(themeVersion.value * 1_000 + zone.value.length))
  const part = plotting.value
  useEffect(loadPlotting, [])

  useLayoutEffect(() => {
    const element = box.current
    if (!element || !part) return
    const made = part.createPlot(element, latest.current, {
      ...latest.current,
      width: element.clientWidth,
      zone: zoneName(zone.peek()),
      span: undefined,
      onMove: (index, left) => setPointed(index === null || left < 0 ? undefined : { index, left }),
      onBrush: onBrush && ((from, to) => latest.current.onBrush?.({ from, to })),
    })
    plot.current = made
    const resized = new ResizeObserver(() => made.setSize({ width: element.clientWidth, height }))
    resized.observe(element)
    return () => {
      resized.disconnect()
      made.destroy()
      plot.current = undefined
    }
  }, [shape, look, part])

  useEffect(() => {
    const made = plot.current
    if (!made || !part) return
    made.setData(part.aligned({ times, series }, kind), false)
    const ends = span ?? { from: times[0] ?? 0, to: (times.at(-1) ?? 0) + step }
    made.setScale('x', { min: ends.from / 1_000, max: ends.to / 1_000 })
  }, [times, series, kind, span, step, part])

  return (
    <div
      class="chart"
      role="group"
      aria-label={plainText(`${props.label}. Arrow keys move, Enter zooms in.`)}
      tabIndex={0}
      onKeyDown={(event) => walk(event, props, pointed, plot.current)}
      onBlur={() => setPointed(undefined)}
      onClick={() => pointed && clickBar(props, pointed)}
    >
      <div ref={box} class="plot" style={{ height: `${height}px` }} />
      {pointed && <Tooltip {...props} pointed={pointed} />}
    </div>
  )
}

function clickBar({ kind, onBrush, times, step }: ChartProps, pointed: Pointed): void {
  const from = times[pointed.index]
  if (kind === 'bars' && onBrush && from !== undefined) onBrush({ from, to: from + step })
}

function walk(
  event: KeyboardEvent,
  props: ChartProps,
  pointed: Pointed | undefined,
  plot: uPlot | undefined,
): void {
  const { times, step, onBrush } = props
  if (!plot) return
  if (event.key === 'Enter' && pointed && onBrush) {
    const from = times[pointed.index] ?? 0
    event.preventDefault()
    onBrush({ from, to: from + step })
    return
  }
  const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key]
  if (by === undefined || times.length === 0) return
  event.preventDefault()
  const start = pointed ? pointed.index + by : by > 0 ? 0 : times.length - 1
  const index = Math.max(0, Math.min(times.length - 1, start))
  const left = plot.valToPos(((times[index] ?? 0) + step / 2) / 1_000, 'x')
  plot.setCursor({ left, top: 10 })
  announce(textOf(props, index))
}

function textOf({ times, series, format }: ChartProps, index: number): string {
  const values = series
    .filter((one) => one.values[index])
    .map((one) => `${one.label} ${format(one.values[index] ?? 0)}`)
  return `${brief(times[index] ?? 0)}: ${values.join(', ') || 'nothing'}`
}

const tooltipWidth = 210

function Tooltip(props: ChartProps & { pointed: Pointed }) {
  const { times, series, format, step, pointed, kind } = props
  const time = times[pointed.index]
  if (time === undefined) return null
  const rows = series.filter((one) => one.values[pointed.index] != null)
  const total = rows.reduce((sum, one) => sum + (one.values[pointed.index] ?? 0), 0)
  const width = document.documentElement.clientWidth
  const flip = pointed.left + tooltipWidth > width / 2 && pointed.left > tooltipWidth
  const left = flip ? pointed.left + 52 - tooltipWidth - 12 : pointed.left + 52 + 12
  return (
    <div
      class="tooltip"
      style={{ left: `${left}px`, width: `${tooltipWidth}px` }}
      aria-hidden="true"
    >
      <div class="quiet">
        {brief(time)} – {brief(time + step)}
      </div>
      {rows.map((one) => (
        <div key={one.label} class="tooltip-row">
          <span class="swatch" style={{ background: `var(${one.color})` }} />
          <span class="grow">
            <LogText text={one.label} />
          </span>
          <span>{format(one.values[pointed.index] ?? 0)}</span>
        </div>
      ))}
      {kind !== 'lines' && rows.length > 1 && (
        <div class="tooltip-row">
          <span class="grow quiet">all</span>
          <span>{format(total)}</span>
        </div>
      )}
    </div>
  )
}

/** Shows a chart as a table, and back. */
export function TableButton({ shown }: { shown: Signal<boolean> }) {
  return (
    <IconButton
      small
      icon="table"
      label="Show as a table"
      pressed={shown.value}
      onClick={() => {
        shown.value = !shown.value
      }}
    />
  )
}

const tableRowsMax = 500

interface ChartTableProps extends PlotData {
  label: string
  format: (value: number) => string
}

export function ChartTable({ label, times, series, format }: ChartTableProps) {
  return (
    <ScrollBox className="chart-table" label={label}>
      <table>
        <caption class="visually-hidden">{plainText(label)}</caption>
        <thead>
          <tr>
            <th scope="col">time</th>
            {series.map((one) => (
              <th key={one.label} scope="col" class="number">
                <LogText text={one.label} />
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {times.slice(-tableRowsMax).map((time, index) => (
            <tr key={time}>
              <th scope="row">{full(time)}</th>
              {series.map((one) => (
                <td key={one.label} class="number">
                  {cell(one.values.slice(-tableRowsMax)[index], format)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </ScrollBox>
  )
}

function cell(value: number | null | undefined, format: (value: number) => string): string {
  return value == null ? '–' : format(value)
}

/** The legend of a chart. */
export function Legend({ series }: { series: PlotData['series'] }) {
  return (
    <div class="legend">
      {series.map((one) => (
        <span key={one.label} class="legend-item">
          <span class="swatch" style={{ background: `var(${one.color})` }} />
          <LogText text={one.label} />
        </span>
      ))}
    </div>
  )
}
