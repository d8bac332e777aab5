// Time ranges as they are in the address and as people type them: `now-15m` to `now`, absolute
// times in any common format, milliseconds or seconds since 1970. Times without a zone are in the
// selected time zone.
import { localZone, midnight, momentOf, wallClock } from './zone'

export interface Range {
  /** `now`, `now-15m`, `now-1d/d`, or ISO 8601. */
  from: string
  to: string
}

export interface Span {
  from: number
  to: number
}

export const defaultRange: Range = { from: 'now-15m', to: 'now' }

export const presets: Array<{ range: Range; label: string }> = [
  ['5m', 'Last 5 minutes'],
  ['15m', 'Last 15 minutes'],
  ['1h', 'Last hour'],
  ['4h', 'Last 4 hours'],
  ['12h', 'Last 12 hours'],
  ['1d', 'Last day'],
  ['3d', 'Last 3 days'],
  ['7d', 'Last 7 days'],
].map(([length, label]) => ({ range: { from: `now-${length}`, to: 'now' }, label: label ?? '' }))

const units: Record<string, number> = {
  s: 1_000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
  w: 604_800_000,
}

const relative = /^now((?:[+-]\d+[smhdw])*)(?:\/([smhdw]))?$/

export function isRelative(text: string): boolean {
  return relative.test(text)
}

/** A time of the address in milliseconds, or undefined when it is none. */
export function resolve(text: string, now: number, zone = localZone()): number | undefined {
  const match = relative.exec(text)
  if (match) return resolveRelative(match[1] ?? '', match[2], now, zone)
  const time = Date.parse(text)
  return Number.isNaN(time) ? undefined : time
}

function resolveRelative(
  steps: string,
  rounding: string | undefined,
  now: number,
  zone: string,
): number {
  let time = now
  for (const [, sign, count, unit] of steps.matchAll(/([+-])(\d+)([smhdw])/g)) {
    time += (sign === '-' ? -1 : 1) * Number(count) * (units[unit ?? ''] ?? 0)
  }
  if (!rounding) return time
  if (rounding === 'd' || rounding === 'w') return midnight(time, zone, rounding === 'w')
  const unit = units[rounding] ?? 1
  return Math.floor(time / unit) * unit
}

function endsOf(range: Range, now: number, zone: string): Span | undefined {
  const from = resolve(range.from, now, zone)
  const to = resolve(range.to, now, zone)
  return from === undefined || to === undefined || from >= to ? undefined : { from, to }
}

/** The range itself, or the default if it cannot be read or has no length. */
export function validRange(range: Range, now: number, zone = localZone()): Range {
  return endsOf(range, now, zone) ? range : defaultRange
}

/** A range with its ends known; one that is not valid is the default. */
export function resolveRange(range: Range, now: number, zone = localZone()): Span {
  return endsOf(range, now, zone) ?? resolveRange(defaultRange, now)
}

/** What somebody typed or pasted as a range: a duration, two times, or one time. */
export function readRange(input: string, now: number, zone = localZone()): Range | undefined {
  const text = input.trim()
  const duration =
    /^(?:last\s+|past\s+|now-|-)?(\d+)\s*(s|m|h|d|w|sec|min|hour|day|week)[a-z]*(?:\s+ago)?$/i.exec(
      text,
    )
  if (duration)
    return { from: `now-${duration[1]}${(duration[2] ?? 'm').charAt(0).toLowerCase()}`, to: 'now' }
  if (/^today$/i.test(text)) return { from: 'now/d', to: 'now' }
  if (/^yesterday$/i.test(text)) return { from: 'now-1d/d', to: 'now/d' }
  const ends = text.split(/\s+(?:to|until|–|—|-|\.\.)\s+|\s*(?:\.\.|→)\s*/i).filter(Boolean)
  if (ends.length > 1) return between(ends, now, zone)
  const time = readTime(text, now, zone)
  // A comma stands between two times, or in one: `12:00:00,250`, `Tue, 24 Nov 2026`.
  return time ? around(time, now) : between(text.split(/\s*,\s*/), now, zone)
}

function between(ends: string[], now: number, zone: string): Range | undefined {
  const [from, to] = ends.map((end) => readTime(end, now, zone))
  return from && to && ends.length === 2 ? { from, to } : undefined
}

/** A single time stands for the five minutes before and after it. */
function around(text: string, now: number): Range | undefined {
  if (isRelative(text)) return { from: text, to: 'now' }
  const time = resolve(text, now)
  if (time === undefined) return undefined
  return fixed({ from: time - 5 * 60_000, to: time + 5 * 60_000 })
}

/** One time in any common form, as it stands in the address. */
export function readTime(input: string, now: number, zone = localZone()): string | undefined {
  const text = input.trim().replace(/^\[|\]$/g, '')
  if (isRelative(text)) return text
  if (/^\d{10}(\.\d+)?$/.test(text)) return iso(Number(text) * 1_000)
  if (/^\d{13}$/.test(text)) return iso(Number(text))
  if (/^\d{16}$/.test(text)) return iso(Number(text.slice(0, 13)))
  if (/^\d{19}$/.test(text)) return iso(Number(text.slice(0, 13)))
  return (
    clockTime(text, now, zone) ??
    syslogTime(text, now, zone) ??
    accessLogTime(text, zone) ??
    dateTime(text, zone)
  )
}

/** `14:05`, `14:05:30.250`: of today. */
function clockTime(text: string, now: number, zone: string): string | undefined {
  const match = /^(\d{1,2}):(\d{2})(?::(\d{2})(?:[.,](\d{1,3}))?)?$/.exec(text)
  if (!match) return undefined
  const [, hour, minute, second = '0', fraction = '0'] = match
  const today = Math.floor(wallClock(now, zone) / day) * day
  const clock = (Number(hour) * 60 + Number(minute)) * 60_000 + Number(second) * 1_000
  return iso(momentOf(today + clock + Number(fraction.padEnd(3, '0')), zone))
}

const day = 86_400_000

/** `Oct 10 13:55:36`, as syslog writes it: of the last twelve months, as it has no year. */
function syslogTime(text: string, now: number, zone: string): string | undefined {
  const match = /^([A-Z][a-z]{2})\s+(\d{1,2})\s+(\d{1,2}:\d{2}(?::\d{2}(?:[.,]\d+)?)?)$/.exec(text)
  if (!match) return undefined
  const [, month, date, time] = match
  const year = new Date(wallClock(now, zone)).getUTCFullYear()
  const of = (year: number) => dateTime(`${date} ${month} ${year} ${time?.replace(',', '.')}`, zone)
  const found = of(year)
  return found && Date.parse(found) > now + day ? of(year - 1) : found
}

/** `10/Oct/2026:13:55:36 -0700`, as web servers write it. */
function accessLogTime(text: string, zone: string): string | undefined {
  const match = /^(\d{1,2})\/([A-Z][a-z]{2})\/(\d{4}):(\d{2}:\d{2}:\d{2})(?:\s*([+-]\d{4}))?$/.exec(
    text,
  )
  if (!match) return undefined
  const [, date, month, year, time, offset] = match
  return dateTime(`${date} ${month} ${year} ${time} ${offset ?? ''}`.trim(), zone)
}

function dateTime(text: string, zone: string): string | undefined {
  if (!/\d{4}|[A-Z][a-z]{2} \d/.test(text)) return undefined
  const written = text
    .replace(/^(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*,?\s+/, '')
    .replace(/^(\d{4})[/.](\d{2})[/.](\d{2})/, '$1-$2-$3')
    .replace(/^(\d{4}-\d{2}-\d{2})[ _]+(\d)/, '$1T$2')
    .replace(/(\d{2}:\d{2}:\d{2}),(\d+)/, '$1.$2')
    .replace(/ (UTC|GMT|Z)$/, 'Z')
    .replace(/(T\S+) ([+-]\d{2}:?\d{2})$/, '$1$2')
  const zoned = /Z$|[+-]\d{2}:?\d{2}$|GMT/.test(written.replace(/^\d{4}-\d{2}-\d{2}/, ''))
  if (zoned) return iso(Date.parse(written))
  const wall = Date.parse(/T/.test(written) ? `${written}Z` : `${written} UTC`)
  return Number.isNaN(wall) ? undefined : iso(momentOf(wall, zone))
}

function iso(time: number): string | undefined {
  const date = new Date(time)
  return Number.isNaN(date.getTime()) ? undefined : date.toISOString()
}

export function fixed(span: Span): Range {
  return { from: new Date(span.from).toISOString(), to: new Date(span.to).toISOString() }
}

/** The range shifted by a part of its length. */
export function shifted(span: Span, part: number): Range {
  const by = (span.to - span.from) * part
  return fixed({ from: span.from + by, to: span.to + by })
}

export function zoomed(span: Span, factor: number): Range {
  const middle = (span.from + span.to) / 2
  const half = Math.max(((span.to - span.from) * factor) / 2, 5)
  return fixed({ from: middle - half, to: middle + half })
}

export function labelOf(range: Range, format: (time: number) => string): string {
  const preset = presets.find((one) => one.range.from === range.from && one.range.to === range.to)
  if (preset) return preset.label
  const last = /^now-(\d+[smhdw])$/.exec(range.from)
  if (last && range.to === 'now') return `Last ${last[1]}`
  const end = (text: string) => (isRelative(text) ? text : format(Date.parse(text)))
  return `${end(range.from)} – ${end(range.to)}`
}
