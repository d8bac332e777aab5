// Conversion between points in time and the wall clock of a time zone.

export const localZone = () => Intl.DateTimeFormat().resolvedOptions().timeZone

const formats = new Map<string, Intl.DateTimeFormat>()

function formatOf(zone: string): Intl.DateTimeFormat {
  const known = formats.get(zone)
  if (known) return known
  const made = new Intl.DateTimeFormat('en-GB', {
    timeZone: zone,
    hourCycle: 'h23',
    year: 'numeric',
    month: '2-digit',
    day: '2-digit',
    hour: '2-digit',
    minute: '2-digit',
    second: '2-digit',
  })
  formats.set(zone, made)
  return made
}

/** The wall-clock time of the zone, as if it were UTC. */
export function wallClock(time: number, zone: string): number {
  const parts = formatOf(zone).formatToParts(time)
  const part = (type: string) => Number(parts.find((one) => one.type === type)?.value ?? 0)
  const [year, month, day] = [part('year'), part('month') - 1, part('day')]
  const milliseconds = ((time % 1_000) + 1_000) % 1_000
  return Date.UTC(year, month, day, part('hour'), part('minute'), part('second'), milliseconds)
}

/** The point in time with this wall-clock time in the zone; of two, the first. */
export function momentOf(wall: number, zone: string): number {
  const guess = wall - (wallClock(wall, zone) - wall)
  const exact = wall - (wallClock(guess, zone) - guess)
  const earlier = exact - 3_600_000
  return wallClock(earlier, zone) === wall ? earlier : exact
}

const day = 86_400_000

/** Midnight of the zone at or before a moment; with `week` that of Monday. */
export function midnight(time: number, zone: string, week: boolean): number {
  const wall = wallClock(time, zone)
  const today = Math.floor(wall / day)
  const monday = today - ((today + 3) % 7)
  return momentOf((week ? monday : today) * day, zone)
}
