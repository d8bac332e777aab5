// A chart of a number with a unit, over the current range.
import { question, setSpan } from '../explore/question'
import { measured } from '../format/numbers'
import { Chart } from '../ui/chart'
import type { PlotKind } from '../ui/plot'
import type { Lines } from './load'

const height = 230

export function LinesChart({
  label,
  kind,
  found,
  asTable,
}: {
  label: string
  kind: PlotKind
  found: Lines
  asTable: boolean
}) {
  return (
    <Chart
      label={label}
      kind={kind}
      height={height}
      times={found.times}
      series={found.series}
      step={found.step}
      span={question.value.span}
      asTable={asTable}
      format={(value) => measured(value, found.unit)}
      onBrush={setSpan}
    />
  )
}
