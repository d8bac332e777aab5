// Severities: their order, letters and colors. Color is never the only sign.

export const statuses = [
  'emergency',
  'alert',
  'critical',
  'error',
  'warn',
  'notice',
  'info',
  'ok',
  'debug',
] as const

export type Status = (typeof statuses)[number] | 'none'

const letters: Record<Status, string> = {
  emergency: 'F',
  alert: 'A',
  critical: 'C',
  error: 'E',
  warn: 'W',
  notice: 'N',
  info: 'I',
  ok: 'O',
  debug: 'D',
  none: '·',
}

export function statusOf(text: string | null | undefined): Status {
  const found = statuses.find((status) => status === text)
  return found ?? 'none'
}

export function letterOf(status: Status): string {
  return letters[status]
}

/** The colors of the style sheet: several severities share one. */
export function toneOf(status: Status): string {
  switch (status) {
    case 'emergency':
    case 'alert':
    case 'critical':
      return 'critical'
    case 'notice':
    case 'ok':
      return 'notice'
    default:
      return status
  }
}

/** Any spelling of a severity that records come in with. */
export function readStatus(text: string | null | undefined): Status {
  const word = (text ?? '').toLowerCase()
  const rules: Array<[RegExp, Status]> = [
    [/^(emerg|f|panic)/, 'emergency'],
    [/^a/, 'alert'],
    [/^c/, 'critical'],
    [/^e/, 'error'],
    [/^w/, 'warn'],
    [/^n/, 'notice'],
    [/^i/, 'info'],
    [/^(d|trace|verbose)/, 'debug'],
    [/^[os]/, 'ok'],
  ]
  return rules.find(([rule]) => rule.test(word))?.[1] ?? 'none'
}
