// Times as weir writes them: RFC 3339 with up to nine digits after the second, of which a `Date`
// keeps three.

/** From one time to another, nanoseconds; undefined when one of them is none. Exact up to 104 days. */
export function nanosecondsBetween(
  from: string | null | undefined,
  to: string | null | undefined,
): number | undefined {
  const [first, last] = [partsOf(from), partsOf(to)]
  if (!first || !last) return undefined
  return (last.seconds - first.seconds) * 1e9 + (last.fraction - first.fraction)
}

function partsOf(text: string | null | undefined) {
  const match = /^([^.]+)(?:\.(\d{1,9})\d*)?(Z|[+-]\d{2}:\d{2})$/.exec(text ?? '')
  if (!match) return undefined
  const seconds = Date.parse(`${match[1]}${match[3]}`) / 1_000
  if (Number.isNaN(seconds)) return undefined
  return { seconds, fraction: Number((match[2] ?? '').padEnd(9, '0')) }
}
