// Server-sent events over fetch. Unlike EventSource, this tells why a stream was refused, and
// passes the data of each event on as text, so that rows that are never shown are never parsed.
import { open } from './client'

export interface ServerEvent {
  id: string
  event: string
  data: string
}

/** Cuts a stream of text into events. */
export class EventParser {
  private rest = ''

  push(text: string): ServerEvent[] {
    const blocks = (this.rest + text).split('\n\n')
    this.rest = blocks.pop() ?? ''
    return blocks.flatMap((block) => parseBlock(block) ?? [])
  }
}

function parseBlock(block: string): ServerEvent | undefined {
  const found: ServerEvent = { id: '', event: 'message', data: '' }
  let some = false
  for (const line of block.split('\n')) {
    const colon = line.indexOf(':')
    if (colon <= 0) continue
    const value = line.slice(line[colon + 1] === ' ' ? colon + 2 : colon + 1)
    const name = line.slice(0, colon)
    if (name === 'id') found.id = value
    else if (name === 'event') found.event = value
    else if (name === 'data') found.data = some ? `${found.data}\n${value}` : value
    some ||= name === 'data'
  }
  return some ? found : undefined
}

export interface StreamHandlers {
  opened: () => void
  events: (events: ServerEvent[]) => void
}

/** Reads a stream to its end. It throws when it cannot be opened or is cut. */
export async function readStream(
  url: string,
  lastId: string,
  handlers: StreamHandlers,
  signal: AbortSignal,
): Promise<void> {
  const headers: Record<string, string> = { accept: 'text/event-stream' }
  if (lastId) headers['last-event-id'] = lastId
  const response = await open(url, { headers, signal, cache: 'no-store' })
  handlers.opened()
  const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader()
  if (!reader) return
  const parser = new EventParser()
  for (;;) {
    const { done, value } = await reader.read()
    if (done) return
    const events = parser.push(value)
    if (events.length > 0) handlers.events(events)
  }
}
