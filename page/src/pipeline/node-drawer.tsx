// Everything that is known of one part of the pipeline.
import type { OutputStatus, SourceStatus, StatusDocument } from '../api/schema'
import { bytes, exact, percent, rate, seconds, short } from '../format/numbers'
import { go } from '../state/location'
import { status, statusBefore } from '../state/status'
import { IconButton } from '../ui/button'
import { Sparkline } from '../ui/sparkline'
import { fullIn, outputIn, outputState, rateOf, sourceIn, sourceState } from './figures'
import { history } from './history'
import { journalOf } from './topology'
import { openNode } from './topology-view'

type Pair = [string, string]

interface Part {
  title: string
  type: string
  state: string
  error: string | undefined
  pairs: Pair[]
}

export function NodeDrawer({ document }: { document: StatusDocument }) {
  const id = openNode.value
  const part = id ? partOf(id, document) : undefined
  if (!part) return null
  return (
    <aside class="drawer" aria-label={part.title}>
      <header class="drawer-head">
        <div class="grow drawer-title">
          <strong>{part.title}</strong> <span class="quiet">{part.type}</span>
        </div>
        <IconButton
          small
          icon="close"
          label="Close"
          onClick={() => go({ node: null }, { replace: true })}
        />
      </header>
      <div class="drawer-body">
        <p>{part.state}</p>
        {part.error && <pre class="drawer-message">{part.error}</pre>}
        <Sparkline
          values={history.value[id] ?? []}
          label="rate of the last minutes"
          width={320}
          height={48}
        />
        <dl class="pairs node-pairs">
          {part.pairs.map(([name, value]) => (
            <>
              <dt>{name}</dt>
              <dd>{value}</dd>
            </>
          ))}
        </dl>
      </div>
    </aside>
  )
}

function partOf(id: string, document: StatusDocument): Part | undefined {
  const [kind, ...rest] = id.split(':')
  const name = rest.join(':')
  if (kind === 'journal') return journalPart(document)
  const source = kind === 'source' ? sourceIn(name, document) : undefined
  if (source) return sourcePart(source)
  const output = kind === 'output' ? outputIn(name, document) : undefined
  return output ? outputPart(output, document) : undefined
}

function cpuText(counter: (document: StatusDocument) => number | undefined): string {
  const now = status.data.value
  const found = now && rateOf(statusBefore.value, now, counter)
  return found === undefined ? '…' : `${percent(found)} of a core`
}

function sourcePart(source: SourceStatus): Part {
  const { book } = source
  const pairs: Pair[] = [
    ...(source.address ? [['listens on', source.address] as Pair] : []),
    ['lines', exact(book.book.lines)],
    ['records', exact(book.book.records)],
    ['bytes', bytes(book.book.bytes_read)],
    ['open streams', exact(book.streams)],
    ['open files', exact(source.files)],
    ['unreadable files', exact(source.unreadable_files)],
    ['lag', seconds(source.lag_seconds)],
    ['time blocked', seconds(source.blocked_seconds)],
    ['errors', exact(source.errors)],
    ['CPU', cpuText((one) => sourceIn(book.name, one)?.cpu_seconds)],
  ]
  return {
    title: book.name,
    type: book.type,
    state: sourceState(source).text,
    error: undefined,
    pairs,
  }
}

function outputPart(output: OutputStatus, document: StatusDocument): Part {
  const { book } = output
  const full = fullIn(statusBefore.value, document, book.name)
  const mean = (sum: number, count: number) => (count > 0 ? seconds(sum / count) : '–')
  const pairs: Pair[] = [
    ['delivered', exact(book.book.delivered)],
    ['in flight', `${exact(book.in_flight)}, ${short(book.taken)} of them taken`],
    ['buffered', `${bytes(book.pending_bytes)} of ${bytes(book.buffer_bytes_max)}`],
    ['full in', full === undefined ? 'not at this rate' : seconds(full)],
    ['when full', book.when_full === 'block' ? 'stops its sources' : 'discards the oldest'],
    ['lag', seconds(book.lag_seconds)],
    ['service time, mean', mean(output.service_seconds, output.requests)],
    ['queueing delay, mean', mean(output.queueing_seconds, output.batches)],
    [
      'requests in flight',
      `${output.in_flight_requests} of ${output.concurrency_limit || 'unlimited'}`,
    ],
    ['retries', exact(output.retries)],
    ['errors', exact(output.errors)],
    ['sent', bytes(output.sent_bytes)],
    ['CPU', cpuText((one) => outputIn(book.name, one)?.cpu_seconds)],
  ]
  const error = output.last_error ?? undefined
  return { title: book.name, type: book.type, state: outputState(output).text, error, pairs }
}

function journalPart(document: StatusDocument): Part {
  const journal = journalOf(document)
  const written = rateOf(statusBefore.value, document, (one) => journalOf(one).disk_bytes)
  return {
    title: 'journal',
    type: 'one buffer for all outputs',
    state: journal.disk_error ? 'The disk fails; deliveries continue.' : 'Accepts records.',
    error: journal.disk_error ?? undefined,
    pairs: [
      ['in memory', `${bytes(journal.ring_bytes)} of ${bytes(journal.ring_bytes_max)}`],
      ['on disk', `${bytes(journal.disk_bytes)} of ${bytes(journal.disk_bytes_max)}`],
      ['disk grows by', written ? rate(written).replace('/s', ' B/s') : 'nothing'],
    ],
  }
}
