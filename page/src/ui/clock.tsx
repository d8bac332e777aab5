// A time of day, without the fraction where there is little room.
import { clock } from '../format/times'

export function Clock({ time }: { time: number }) {
  const text = clock(time)
  const dot = text.indexOf('.')
  if (dot < 0) return <>{text}</>
  return (
    <>
      {text.slice(0, dot)}
      <span class="fraction">{text.slice(dot)}</span>
    </>
  )
}
