// The counts of a live tail: matched, shown, skipped and missed rows, per second and in total, and
// the last minute as bars.
import { useSignal } from '@preact/signals'
import { useEffect } from 'preact/hooks'
import { exact, percent, rate, short } from '../format/numbers'
import { cutAt, type Second, seconds, tailProblem, tailState, totals } from './tail'

export function RateBar({ maxRate }: { maxRate: number }) {
  const last = seconds.value.at(-1)
  const sampled = last !== undefined && last.skipped > 0
  const sum = totals.value
  return (
    <div class="rate-bar">
      <Connection />
      <Figure name="matched" now={last?.matched} sum={sum.matched} />
      <Figure name="shown" now={last?.shown} sum={sum.shown} />
      <Figure
        name="skipped"
        now={last?.skipped}
        sum={sum.skipped}
        tone={sampled ? 'caution' : ''}
      />
      <Figure
        name="missed"
        now={last?.missed}
        sum={sum.missed}
        tone={sum.missed > 0 ? 'bad' : ''}
      />
      {sampled && (
        <span
          class="badge caution"
          title={`weir sends at most ${exact(maxRate)} rows per second, a uniform sample`}
        >
          a sample of {percent(last.sampleRatio)}
        </span>
      )}
      <span class="grow" />
      <Minute all={seconds.value} />
    </div>
  )
}

interface FigureProps {
  name: string
  now: number | undefined
  sum: number
  tone?: string
}

function Figure({ name, now, sum, tone = '' }: FigureProps) {
  return (
    <span class={`rate ${tone}`} title={`${exact(sum)} ${name} since this tail started`}>
      <span class="quiet">{name}</span> <strong>{rate(now ?? 0)}</strong>{' '}
      <small>{short(sum)}</small>
    </span>
  )
}

function Connection() {
  const tick = useSignal(0)
  const state = tailState.value
  useEffect(() => {
    if (state !== 'cut') return
    const timer = window.setInterval(() => {
      tick.value += 1
    }, 500)
    return () => window.clearInterval(timer)
  }, [state, tick])
  tick.value
  switch (state) {
    case 'open':
      return <Sign tone="good" text="live" />
    case 'connecting':
      return <Sign tone="caution" text="connecting" />
    case 'cut': {
      const busy = tailProblem.value?.kind === 'busy'
      const length = Math.round((Date.now() - cutAt.value) / 1_000)
      return (
        <Sign
          tone="bad"
          text={busy ? 'too many live tails; waiting' : `disconnected for ${length} s`}
        />
      )
    }
    case 'refused':
      return <Sign tone="bad" text="rejected" />
    case 'stopped':
      return <Sign tone="" text="stopped" />
  }
}

function Sign({ tone, text }: { tone: string; text: string }) {
  return (
    <span class="rate" role="status">
      <span class={`dot ${tone}`} /> <strong>{text}</strong>
    </span>
  )
}

const barWidth = 4
const height = 24
const bars = 60

function Minute({ all }: { all: Second[] }) {
  const most = Math.max(1, ...all.map((one) => one.matched + one.missed))
  const first = bars - all.length
  return (
    <svg
      class="minute"
      width={bars * barWidth}
      height={height}
      role="img"
      aria-label={`The last minute: at most ${exact(most)} records per second`}
    >
      <title>{`the last minute; the highest bar is ${rate(most)}`}</title>
      {all.map((one, index) => {
        const x = (first + index) * barWidth
        const shown = (one.shown / most) * height
        const skipped = (one.skipped / most) * height
        const missed = (one.missed / most) * height
        return (
          <g key={x}>
            <rect
              class="minute-shown"
              x={x}
              y={height - shown}
              width={barWidth - 1}
              height={shown}
            />
            <rect
              class="minute-skipped"
              x={x}
              y={height - shown - skipped}
              width={barWidth - 1}
              height={skipped}
            />
            <rect
              class="minute-missed"
              x={x}
              y={height - shown - skipped - missed}
              width={barWidth - 1}
              height={missed}
            />
          </g>
        )
      })}
    </svg>
  )
}
