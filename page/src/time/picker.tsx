// The time picker: presets, an input that accepts whatever is typed or pasted, the two ends, the
// time zone, and the interval for refreshing.
import { useSignal } from '@preact/signals'
import { useEffect } from 'preact/hooks'
import { now } from '../api/client'
import {
  askAgain,
  previousRange,
  question,
  range,
  rangesBefore,
  setRange,
} from '../explore/question'
import { isReading } from '../explore/selection'
import { brief, full } from '../format/times'
import { zone, zoneName } from '../state/settings'
import { oneOf, stored } from '../state/stored'
import { Button, IconButton } from '../ui/button'
import { Icon } from '../ui/icon'
import { useKeys } from '../ui/keys'
import { notify } from '../ui/notify'
import { Popover } from '../ui/popover'
import { fixed, isRelative, labelOf, presets, readRange, readTime, shifted, zoomed } from './range'

type Refresh = 'off' | '5' | '30'
export const refresh = stored<Refresh>('refresh', 'off', oneOf('off', '5', '30'))

export function TimePicker() {
  useRefresh()
  useKeys([
    { keys: '[', does: 'earlier', group: 'Query and time', run: () => shift(-0.5) },
    { keys: ']', does: 'later', group: 'Query and time', run: () => shift(0.5) },
    { keys: '-', does: 'longer range', group: 'Query and time', run: () => zoom(2) },
    { keys: '+', does: 'shorter range', group: 'Query and time', run: () => zoom(0.5) },
    { keys: 'z', does: 'previous range', group: 'Query and time', run: previousRange },
    { keys: 'r', does: 'run the query again', group: 'Query and time', run: askAgain },
  ])
  return (
    <div class="time-picker">
      {rangesBefore.value.length > 0 && (
        <IconButton icon="back" label="Previous range" keys="z" onClick={previousRange} />
      )}
      <IconButton icon="chevronLeft" label="Earlier" keys="[" onClick={() => shift(-0.5)} />
      <Popover
        label="Range of time"
        className="time-button"
        align="end"
        text={
          <>
            <Icon name="clock" />
            <span class="time-label">{labelOf(range.value, brief)}</span>
            <Icon name="chevronDown" />
          </>
        }
      >
        {(close) => <Choices close={close} />}
      </Popover>
      <IconButton icon="chevronRight" label="Later" keys="]" onClick={() => shift(0.5)} />
      <IconButton icon="refresh" label="Run again" keys="r" onClick={askAgain} />
    </div>
  )
}

function shift(part: number): void {
  setRange(shifted(question.peek().span, part))
}

function zoom(factor: number): void {
  setRange(zoomed(question.peek().span, factor))
}

function useRefresh(): void {
  const every = refresh.value
  useEffect(() => {
    if (every === 'off') return
    const timer = window.setInterval(() => {
      if (!document.hidden && isRelative(range.peek().to) && !isReading.peek()) askAgain()
    }, Number(every) * 1_000)
    return () => window.clearInterval(timer)
  }, [every])
}

function Choices({ close }: { close: () => void }) {
  return (
    <div class="time-choices">
      <div class="time-presets">
        {presets.map((preset) => (
          <button
            key={preset.label}
            type="button"
            class="menu-item"
            aria-pressed={range.value.from === preset.range.from && range.value.to === 'now'}
            onClick={() => {
              setRange(preset.range)
              close()
            }}
          >
            {preset.label}
          </button>
        ))}
      </div>
      <div class="time-own">
        <Typed close={close} />
        <Ends close={close} />
        <Zone />
        <AutoRefresh />
      </div>
    </div>
  )
}

function Typed({ close }: { close: () => void }) {
  const wrong = useSignal(false)
  return (
    <form
      class="stack"
      onSubmit={(event) => {
        event.preventDefault()
        const field = event.currentTarget.elements.namedItem('range') as HTMLInputElement
        const read = readRange(field.value, now(), zoneName(zone.value))
        wrong.value = !read
        if (!read) return
        setRange(read)
        close()
      }}
    >
      <label for="range-typed">Type or paste a range or a time</label>
      <input
        id="range-typed"
        name="range"
        class="field"
        placeholder="45m, yesterday, 14:05, 1795521600, 2026-11-24 10:00 to 11:00"
        aria-invalid={wrong}
        aria-describedby="range-wrong"
      />
      <span id="range-wrong" class="wrong" role="alert">
        {wrong.value ? 'This is not a valid time or range.' : ''}
      </span>
    </form>
  )
}

function Ends({ close }: { close: () => void }) {
  const span = question.value.span
  return (
    <form
      class="ends"
      onSubmit={(event) => {
        event.preventDefault()
        const fields = event.currentTarget.elements
        const text = (name: string) => (fields.namedItem(name) as HTMLInputElement).value
        const from = readTime(text('from'), now(), zoneName(zone.value))
        const to = readTime(text('to'), now(), zoneName(zone.value))
        if (!from || !to) return notify('One of the times is not valid')
        setRange({ from, to })
        close()
      }}
    >
      <label>
        From
        <input name="from" class="field mono" defaultValue={endText(range.value.from, span.from)} />
      </label>
      <label>
        To
        <input name="to" class="field mono" defaultValue={endText(range.value.to, span.to)} />
      </label>
      <div class="row">
        <button type="submit" class="button small primary">
          Apply
        </button>
        <Button
          small
          onClick={() => {
            setRange(fixed(span))
            close()
          }}
        >
          Use fixed times
        </Button>
      </div>
    </form>
  )
}

function endText(text: string, time: number): string {
  return isRelative(text) ? text : full(time)
}

const zones = [
  'local',
  'utc',
  'Europe/Berlin',
  'Europe/London',
  'America/New_York',
  'America/Los_Angeles',
  'Asia/Tokyo',
  'Asia/Kolkata',
]

function Zone() {
  const own = Intl.DateTimeFormat().resolvedOptions().timeZone
  const shown = zones.includes(zone.value) ? zones : [...zones, zone.value]
  return (
    <label class="labelled">
      Time zone
      <select
        class="field small"
        value={zone.value}
        onChange={(event) => {
          zone.value = event.currentTarget.value
        }}
      >
        {shown.map((name) => (
          <option key={name} value={name}>
            {name === 'local' ? `local (${own})` : name === 'utc' ? 'UTC' : name}
          </option>
        ))}
      </select>
    </label>
  )
}

function AutoRefresh() {
  return (
    <label class="labelled">
      Refresh
      <select
        class="field small"
        value={refresh.value}
        onChange={(event) => {
          refresh.value = event.currentTarget.value as Refresh
        }}
      >
        <option value="off">manually</option>
        <option value="5">every 5 s</option>
        <option value="30">every 30 s</option>
      </select>
    </label>
  )
}
