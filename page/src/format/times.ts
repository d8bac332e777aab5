// Times in the selected time zone. Formatters are expensive to create, so each is created once.
import { computed } from '@preact/signals'
import { zone, zoneName } from '../state/settings'

interface Formatters {
  time: Intl.DateTimeFormat
  day: Intl.DateTimeFormat
  date: Intl.DateTimeFormat
}

const formatters = computed<Formatters>(() => {
  const timeZone = zoneName(zone.value)
  const clock = { hour: '2-digit', minute: '2-digit', second: '2-digit', hourCycle: 'h23' } as const
  const date = { year: 'numeric', month: '2-digit', day: '2-digit' } as const
  return {
    time: new Intl.DateTimeFormat('en-GB', { ...clock, fractionalSecondDigits: 3, timeZone }),
    day: new Intl.DateTimeFormat('en-GB', { month: 'short', day: '2-digit', timeZone }),
    date: new Intl.DateTimeFormat('sv-SE', { ...date, timeZone }),
  }
})

/** `14:05:09.123` */
export function clock(time: number): string {
  return formatters.value.time.format(time).replace(',', '.')
}

/** `24 Nov` */
export function day(time: number): string {
  return formatters.value.day.format(time)
}

/** `2026-11-24 14:05:09.123` */
export function full(time: number): string {
  return `${formatters.value.date.format(time)} ${clock(time)}`
}

/** `24 Nov 14:05`, or with seconds where they say something, and with the year if it is another one. */
export function brief(time: number): string {
  const date = full(time).slice(0, 10)
  const isThisYear = date.slice(0, 4) === full(Date.now()).slice(0, 4)
  const text = `${isThisYear ? day(time) : date} ${clock(time)}`.replace(/\.\d+$/, '')
  return text.endsWith(':00') ? text.slice(0, -3) : text
}

/** How long ago a time is: `3 s ago`. */
export function ago(time: number, now: number): string {
  const seconds = Math.max(0, Math.round((now - time) / 1_000))
  if (seconds < 90) return `${seconds} s ago`
  if (seconds < 5_400) return `${Math.round(seconds / 60)} min ago`
  if (seconds < 129_600) return `${Math.round(seconds / 3_600)} h ago`
  return `${Math.round(seconds / 86_400)} d ago`
}
