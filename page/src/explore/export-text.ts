// Converts exported records to text: exactly one line for each, whatever its message contains.
import type { LogEntry } from '../api/schema'
import { lineOf } from './record'

/** Converts a stream of NDJSON to lines of text. */
export function asLines(): TransformStream<Uint8Array, Uint8Array<ArrayBuffer>> {
  const decoder = new TextDecoder()
  const encoder = new TextEncoder()
  let rest = ''
  return new TransformStream({
    transform(bytes, controller) {
      const lines = (rest + decoder.decode(bytes, { stream: true })).split('\n')
      rest = lines.pop() ?? ''
      if (lines.length > 0) controller.enqueue(encoder.encode(lines.map(textLine).join('')))
    },
    flush(controller) {
      if (rest) controller.enqueue(encoder.encode(textLine(rest)))
    },
  })
}

/** A line that cannot be parsed is kept as it is, so that nothing is missing. */
export function textLine(json: string): string {
  if (json === '') return ''
  try {
    const record = JSON.parse(json) as LogEntry
    return `${lineOf(record)}\n`
  } catch {
    return `${json}\n`
  }
}
