// A time of day; where there is little room, without what is behind the second.
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
