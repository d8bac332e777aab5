// Numbers for people: three digits with SI prefixes, durations and sizes with units, and
// percentages that never show something as nothing.

export function exact(value: number): string {
  return value.toLocaleString('en', { maximumFractionDigits: 3 })
}

/** Three digits and an SI prefix: 12.3k. */
export function short(value: number): string {
  const size = Math.abs(value)
  if (size < 1_000) return digits(value)
  for (const [limit, suffix] of [
    [1e6, 'k'],
    [1e9, 'M'],
    [1e12, 'G'],
  ] as const) {
    if (size < limit * 0.9995) return `${digits((value / limit) * 1_000)}${suffix}`
  }
  return `${digits(value / 1e12)}T`
}

function digits(value: number): string {
  const size = Math.abs(value)
  if (size > 0 && size < 0.005) return value > 0 ? '<0.01' : '>-0.01'
  if (size >= 99.95 || Number.isInteger(value)) return value.toFixed(0)
  return trim(value.toFixed(size >= 9.995 ? 1 : 2))
}

function trim(text: string): string {
  return text.includes('.') ? text.replace(/\.?0+$/, '') : text
}

export function rate(perSecond: number): string {
  return `${short(perSecond)}/s`
}

export function bytes(value: number): string {
  const names = ['B', 'KiB', 'MiB', 'GiB', 'TiB']
  let step = 0
  let rest = value
  while (Math.abs(rest) >= 1_023.5 && step < names.length - 1) {
    rest /= 1_024
    step += 1
  }
  return `${digits(rest)} ${names[step]}`
}

/** A fraction as a percentage; something is never shown as nothing. */
export function percent(share: number): string {
  if (share === 0) return '0 %'
  if (Math.abs(share) < 0.0001) return '<0.01 %'
  const value = share * 100
  const rounded = value >= 99.95 && value < 100 ? '>99.9' : trim(value.toFixed(value < 1 ? 2 : 1))
  return `${rounded} %`
}

const steps: Array<[number, string]> = [
  [86_400e9, 'd'],
  [3_600e9, 'h'],
  [60e9, 'min'],
  [1e9, 's'],
  [1e6, 'ms'],
  [1e3, 'µs'],
  [1, 'ns'],
]

/** A duration in nanoseconds, with a suitable unit. */
export function duration(nanoseconds: number): string {
  const size = Math.abs(nanoseconds)
  if (size === 0) return '0 s'
  const [unit, name] = steps.find(([one]) => size >= one * 0.9995) ?? [1, 'ns']
  return `${digits(nanoseconds / unit)} ${name}`
}

export function seconds(value: number): string {
  return duration(value * 1e9)
}

export type Unit = 'ns' | 'us' | 'ms' | 's' | 'B'

const nanoseconds: Record<string, number> = {
  ns: 1,
  us: 1e3,
  ms: 1e6,
  s: 1e9,
  min: 60e9,
  h: 3600e9,
}

/** Sizes in bytes; attributes can be declared to be in any of these. */
const sizes: Record<string, number> = {
  B: 1,
  kB: 1e3,
  KiB: 2 ** 10,
  MB: 1e6,
  MiB: 2 ** 20,
  GB: 1e9,
  GiB: 2 ** 30,
}

export function isTime(unit: string | null | undefined): boolean {
  return unit !== undefined && unit !== null && unit in nanoseconds
}

/** The factor for converting one unit of time to another; 1 if either is unknown. */
export function unitRatio(from: string | undefined, to: string | undefined): number {
  const [first, last] = [nanoseconds[from ?? ''], nanoseconds[to ?? '']]
  return first !== undefined && last !== undefined ? first / last : 1
}

/** A number in the unit that weir says it has. */
export function measured(value: number, unit: string | null | undefined): string {
  const scale = nanoseconds[unit ?? '']
  if (scale !== undefined) return duration(value * scale)
  const size = sizes[unit ?? '']
  if (size !== undefined) return bytes(value * size)
  return Math.abs(value) < 100_000 ? exact(value) : short(value)
}

/** A number as it is written in an expression, so that it means the same there. */
export function written(value: number, unit: string | null | undefined): string {
  const plain = Number(value.toPrecision(6))
  return unit && unit in nanoseconds ? `${plain}${unit}` : `${plain}`
}

/** What an attribute measures by its name, as weir itself takes it. */
export function unitByName(name: string): Unit | undefined {
  if (name === '@duration' || name === '@lag') return 'ns'
  const suffix = /[._](ns|us|ms|seconds|bytes)$/.exec(name)?.[1]
  if (suffix === 'seconds') return 's'
  if (suffix === 'bytes') return 'B'
  return suffix as Unit | undefined
}

/** A number without rounding errors of binary fractions. Integers, which may be IDs, are unchanged. */
export function tidy(value: number): string {
  return Number.isInteger(value) ? `${value}` : `${Number(value.toPrecision(12))}`
}
