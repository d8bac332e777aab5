// The details of a node of the pipeline.
import type { OutputStatus, SourceStatus } from '../api/schema'
import { bytes, exact, percent, rate, seconds, short } from '../format/numbers'
import { quoteValue } from '../query/quote'
import { go, link } from '../state/location'
import { type Status, status, statusBefore } from '../state/status'
import { IconButton } from '../ui/button'
import { useKeys } from '../ui/keys'
import { LogText } from '../ui/log-text'
import { Sparkline } from '../ui/sparkline'
import { fullIn, outputIn, rateOf, sourceIn } from './figures'
import { history } from './history'
import type { PipelineNode, Topology } from './topology'
import { openNode } from './topology-view'

type Pair = [string, string]

/** Returns the focus to the node that it was opened from. */
function closeNode(): void {
  const box = document.querySelector<HTMLElement>('.node[aria-expanded=true]')
  go({ node: null }, { replace: true })
  box?.focus()
}

interface Props {
  document: Status
  topology: Topology
}

export function NodeDrawer({ document, topology }: Props) {
  useKeys([{ keys: 'Escape', does: 'close the details', group: 'Pipeline', run: closeNode }])
  const node = topology.columns.flat().find(({ id }) => id === openNode.value)
  if (!node) return null
  return (
    <aside class="drawer" aria-label={node.name}>
      <header class="drawer-head">
        <div class="grow drawer-title">
          <strong>{node.name}</strong> <span class="quiet">{node.type}</span>
        </div>
        <IconButton small icon="close" label="Close" keys="Escape" onClick={closeNode} />
      </header>
      <div class="drawer-body">
        <p>{node.state.text}</p>
        {node.kind === 'source' && <Records source={node.name} />}
        {node.error && (
          <pre class="drawer-message">
            <LogText text={node.error} />
          </pre>
        )}
        {node.rate && (
          <Sparkline
            values={history.value[node.rate] ?? []}
            label="rate of the last minutes"
            width={320}
            height={48}
          />
        )}
        <dl class="pairs node-pairs">
          {pairsOf(node, document).map(([name, value]) => (
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

/** Links to the records of a source. */
function Records({ source }: { source: string }) {
  const q = `source:${quoteValue(source)}`
  return (
    <div class="drawer-actions">
      <a class="button small" href={link({ q }, 'live')}>
        Follow its records
      </a>
      <a class="button small" href={link({ q }, 'explore')}>
        Search its records
      </a>
    </div>
  )
}

function pairsOf(node: PipelineNode, document: Status): Pair[] {
  if (node.kind === 'journal') return journalPairs(document)
  if (node.kind === 'source') {
    const source = sourceIn(node.name, document)
    return source ? sourcePairs(source) : []
  }
  const output = outputIn(node.name, document)
  if (node.id === `output:${node.name}` && output) return outputPairs(output, document)
  return [
    ['received', exact(node.received)],
    ['sent', exact(node.sent)],
    ['lost', exact(node.lost)],
  ]
}

function cpuText(counter: (document: Status) => number | undefined): string {
  const now = status.value
  const found = now && rateOf(statusBefore.value, now, counter)
  return found === undefined ? '…' : `${percent(found)} of a core`
}

function sourcePairs(source: SourceStatus): Pair[] {
  const { book } = source
  return [
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
}

function outputPairs(output: OutputStatus, document: Status): Pair[] {
  const { book } = output
  const full = fullIn(statusBefore.value, document, book.name)
  const mean = (sum: number, count: number) => (count > 0 ? seconds(sum / count) : '–')
  return [
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
}

function journalPairs(document: Status): Pair[] {
  const { journal } = document
  if (!journal) return []
  const written = rateOf(statusBefore.value, document, (one) => one.journal?.disk_bytes)
  return [
    ['in memory', `${bytes(journal.ring_bytes)} of ${bytes(journal.ring_bytes_max)}`],
    ['on disk', `${bytes(journal.disk_bytes)} of ${bytes(journal.disk_bytes_max)}`],
    ['disk grows by', written ? rate(written).replace('/s', ' B/s') : 'nothing'],
  ]
}
