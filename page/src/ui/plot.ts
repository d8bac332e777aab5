// The only module that uses uPlot: options for bars, areas and lines over time, with a brush.
import uPlot from 'uplot'
import type { Span } from '../time/range'
import { color } from './theme'

export type PlotKind = 'bars' | 'area' | 'lines'

export interface Series {
  label: string
  /** Name of a color of the style sheet. */
  color: string
  values: Array<number | null>
}

export interface PlotData {
  /** Start of each interval, milliseconds. */
  times: number[]
  series: Series[]
}

export interface PlotOptions {
  kind: PlotKind
  width: number
  height: number
  zone: string
  format: (value: number) => string
  span: Span | undefined
  onMove: (index: number | null, left: number) => void
  onBrush: ((from: number, to: number) => void) | undefined
}

const milliseconds = 1_000

export function createPlot(element: HTMLElement, data: PlotData, options: PlotOptions): uPlot {
  return new uPlot(optionsOf(data, options), aligned(data, options.kind), element)
}

/** Stacked values are summed from the first series, and drawn from the last. */
export function aligned(data: PlotData, kind: PlotKind): uPlot.AlignedData {
  const times = data.times.map((time) => time / milliseconds)
  if (kind === 'lines') return [times, ...data.series.map((one) => one.values)]
  const sums = new Array<number>(times.length).fill(0)
  const stacked = data.series.map((one) =>
    one.values.map((value, index) => {
      sums[index] = (sums[index] ?? 0) + (value ?? 0)
      return sums[index] ?? 0
    }),
  )
  return [times, ...stacked.reverse()]
}

function optionsOf(data: PlotData, options: PlotOptions): uPlot.Options {
  const { kind, width, height, zone } = options
  const series = data.series.map((one) => seriesOf(one, kind))
  if (kind !== 'lines') series.reverse()
  return {
    width,
    height,
    tzDate: (seconds) => uPlot.tzDate(new Date(seconds * milliseconds), zone),
    legend: { show: false },
    // A label of the time at the end needs half its width.
    padding: [6, 24, 0, 0],
    cursor: {
      y: false,
      points: { show: kind === 'lines' },
      drag: { x: options.onBrush !== undefined, y: false, setScale: false },
    },
    scales: {
      x: { time: true, range: (_, low, high) => rangeOf(options.span, low, high) },
      y: { range: (_, __, high) => [0, (high || 1) * 1.06] },
    },
    axes: axesOf(options),
    series: [{}, ...series],
    hooks: {
      setCursor: [(plot) => options.onMove(plot.cursor.idx ?? null, plot.cursor.left ?? -1)],
      setSelect: [(plot) => brushed(plot, options)],
    },
  }
}

function rangeOf(span: Span | undefined, low: number, high: number): [number, number] {
  return span ? [span.from / milliseconds, span.to / milliseconds] : [low, high]
}

function seriesOf(one: Series, kind: PlotKind): uPlot.Series {
  const stroke = color(one.color)
  switch (kind) {
    case 'bars': {
      const paths = uPlot.paths.bars?.({ size: [0.86, 60], align: 1 })
      return { fill: stroke, width: 0, points: { show: false }, ...(paths ? { paths } : {}) }
    }
    case 'area':
      return { fill: stroke, stroke, width: 1, points: { show: false } }
    case 'lines':
      return { stroke, width: 1.5, spanGaps: false, points: { size: 4 } }
  }
}

function axesOf({ format, zone }: PlotOptions): uPlot.Axis[] {
  const common: uPlot.Axis = {
    stroke: color('--axis'),
    font: '11px system-ui, sans-serif',
    grid: { stroke: color('--grid'), width: 1 },
    ticks: { show: false },
  }
  return [
    { ...common, size: 24, gap: 4, grid: { show: false }, values: timeLabels(zone) },
    {
      ...common,
      size: 52,
      gap: 6,
      space: 26,
      values: (_, splits) => splits.map((value) => (value === 0 ? '0' : format(value))),
    },
  ]
}

/** Labels in 24-hour format, with the date at midnight. */
function timeLabels(zone: string): uPlot.Axis.DynamicValues {
  const two = (value: number) => `${value}`.padStart(2, '0')
  return (_plot, splits, _axis, _space, step) => {
    let before = ''
    return splits.map((seconds) => {
      const date = uPlot.tzDate(new Date(seconds * milliseconds), zone)
      const day = `${date.getDate()}/${two(date.getMonth() + 1)}`
      const clock = `${two(date.getHours())}:${two(date.getMinutes())}`
      const time = step < 60 ? `${clock}:${two(date.getSeconds())}` : clock
      const first = day !== before
      before = day
      if (step >= 86_400) return day
      return first && clock === '00:00' ? day : time
    })
  }
}

const dragMin = 4

function brushed(plot: uPlot, options: PlotOptions): void {
  const { left, width } = plot.select
  if (width < dragMin || !options.onBrush) return
  const from = plot.posToVal(left, 'x') * milliseconds
  const to = plot.posToVal(left + width, 'x') * milliseconds
  plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false)
  options.onBrush(from, to)
}
