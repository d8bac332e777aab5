// The logarithmic scale of the heat map: each power of ten in nine steps, over at most five powers.

export interface Decade {
  /** The least number of it. */
  low: number
  /** Width of its steps. */
  step: number
}

export interface Step {
  low: number
  high: number
}

const decadesMax = 5

/** The powers of ten that numbers from `min` to `max` need. What is below counts in the first step. */
export function decadesOf(min: number, max: number): Decade[] {
  const top = Math.floor(Math.log10(Math.max(max, Number.MIN_VALUE)))
  const least = min > 0 ? Math.floor(Math.log10(min)) : top - decadesMax + 1
  const bottom = Math.max(least, top - decadesMax + 1)
  return Array.from({ length: top - bottom + 1 }, (_, at) => {
    const step = 10 ** (bottom + at)
    return { low: step, step }
  })
}

/** All steps, the least first; the first one holds what is below the powers of ten. */
export function stepsOf(decades: Decade[]): Step[] {
  const first = decades[0]
  if (!first) return []
  const steps = decades.flatMap(({ low, step }) =>
    Array.from({ length: 9 }, (_, at) => ({
      low: round(low + at * step),
      high: round(low + (at + 1) * step),
    })),
  )
  return [{ low: 0, high: first.low }, ...steps]
}

/** Without rounding errors of binary fractions. */
function round(value: number): number {
  return Number(value.toPrecision(12))
}

/** In which step a number is, given its power of ten. */
export function indexOf(steps: Step[], low: number): number {
  return steps.findIndex((step) => Math.abs(step.low - low) <= step.high * 1e-9)
}
