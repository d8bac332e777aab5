// A small line chart without axes.
interface SparklineProps {
  values: number[]
  label: string
  width?: number
  height?: number
}

export function Sparkline({ values, label, width = 96, height = 22 }: SparklineProps) {
  const most = Math.max(...values, 1e-9)
  const step = width / Math.max(values.length - 1, 1)
  const points = values.map(
    (value, index) =>
      `${(index * step).toFixed(1)},${(height - 1 - (value / most) * (height - 3)).toFixed(1)}`,
  )
  return (
    <svg class="sparkline" width={width} height={height} role="img" aria-label={label}>
      {values.length > 1 && (
        <>
          <polygon points={`0,${height} ${points.join(' ')} ${width},${height}`} />
          <polyline points={points.join(' ')} />
        </>
      )}
    </svg>
  )
}
