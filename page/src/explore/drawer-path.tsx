// The path of a record through weir with its times, as far as they are known: when it was written, when
// weir received it and where it stands in its stream, and what each output still has to do with it.
import { useRef } from 'preact/hooks'
import type { LogEntry, OutputStatus } from '../api/schema'
import { duration, seconds, short } from '../format/numbers'
import { full } from '../format/times'
import { outputState } from '../pipeline/figures'
import { link } from '../state/location'
import { seesEverything } from '../state/session'
import { type Status, status } from '../state/status'
import { LogText } from '../ui/log-text'
import { type Outcome, outcomeAt } from './path'

interface PathProps {
  record: LogEntry
  /** A search has found it, so the store has it. */
  isStored: boolean
}

export function PathTab({ record, isStored }: PathProps) {
  const document = status.value
  const outputs = document?.outputs.filter((output) => output.book.active) ?? []
  return (
    <div class="path">
      <ol class="hops">
        <Written record={record} />
        <Received record={record} />
        {document &&
          outputs.map((output) => (
            <OutputHop
              key={`${record.id} ${output.book.name}`}
              output={output}
              record={record}
              isStored={isStored}
              document={document}
            />
          ))}
      </ol>
      {seesEverything.value && (
        <p class="quiet drawer-note">
          Outputs count what they did and do not keep it for every record: this follows from their
          books, and the times are when it was first known here. The{' '}
          <a href={link({}, 'pipeline')}>pipeline</a> has the books.
        </p>
      )}
    </div>
  )
}

function Written({ record }: { record: LogEntry }) {
  const { service, host } = record.attributes
  return (
    <Hop title="Written" state="good">
      <dl class="pairs">
        <dt>by</dt>
        <dd>
          <LogText text={`${service || 'a program'}${host ? ` on ${host}` : ''}`} />
        </dd>
        <Time name="time" text={record.weir?.timestamp ?? record.attributes.timestamp} />
      </dl>
    </Hop>
  )
}

function Received({ record }: { record: LogEntry }) {
  const details = record.weir
  const lag = details?.lag_ns
  return (
    <Hop
      title={`Received by ${details?.source || 'weir'}`}
      state={isLate(lag) ? 'caution' : 'good'}
    >
      <dl class="pairs">
        <Time name="time" text={details?.arrival} />
        {lag !== undefined && lag !== null && (
          <>
            <dt>lag</dt>
            <dd>{lagText(lag)}</dd>
          </>
        )}
        <dt>stream</dt>
        <dd class="mono">{details?.stream || 'not known'}</dd>
        <dt>position</dt>
        <dd class="mono">{details?.position || 'not known'}</dd>
      </dl>
    </Hop>
  )
}

/** So late is worth a look, nanoseconds. */
const late = 60e9

function isLate(lag: number | null | undefined): boolean {
  return lag !== undefined && lag !== null && Math.abs(lag) > late
}

function lagText(lag: number): string {
  return lag < 0
    ? `${duration(-lag)} before its own time: the clock of its sender is ahead`
    : `${duration(lag)} after it was written`
}

/** A time in the reader's zone; the exact one as weir has it on hover. */
function Time({ name, text }: { name: string; text: string | null | undefined }) {
  return (
    <>
      <dt>{name}</dt>
      <dd class="mono" title={text ?? ''}>
        {text ? full(Date.parse(text)) : 'not known'}
      </dd>
    </>
  )
}

/** What has become of the record there, and when that was first known. */
interface Known {
  outcome: Outcome
  time: number
}

function textOf({ outcome, time }: Known, { book }: OutputStatus): string {
  switch (outcome) {
    case 'not sent':
      return 'No record has been sent here.'
    case 'waiting':
      return `May still wait: ${short(book.in_flight)} records do, the oldest for ${seconds(book.lag_seconds)}.`
    case 'delivered':
      return `Delivered by ${full(time)}, as all records were.`
    case 'settled':
      return `Settled by ${full(time)}: delivered, unless a rule sent it elsewhere${othersText(book)}.`
  }
}

/** How many records were not delivered by an output; one of them can be this one. */
function othersText({ book }: OutputStatus['book']): string {
  const gone = Object.values(book.discarded).reduce((sum, count) => sum + count, 0)
  const count = gone + book.dead_lettered
  return count > 0 ? ` or it is among the ${short(count)} that were discarded` : ''
}

function titleOf({ book }: OutputStatus): string {
  return book.type ? `${book.name} (${book.type})` : book.name
}

interface OutputHopProps {
  output: OutputStatus
  record: LogEntry
  isStored: boolean
  document: Status
}

function OutputHop({ output, record, isStored, document }: OutputHopProps) {
  const state = outputState(output)
  const known = useRef<Known | undefined>(undefined)
  if (known.current === undefined || known.current.outcome === 'waiting') {
    const outcome = outcomeAt(output, record.weir?.arrival, document)
    known.current = { outcome, time: Date.parse(document.time) }
  }
  const inStore = output.book.type === 'store' && isStored
  return (
    <Hop title={titleOf(output)} state={known.current.outcome === 'not sent' ? '' : state.tone}>
      <p>{inStore ? 'Stored.' : textOf(known.current, output)}</p>
      {state.tone !== 'good' && <p class="quiet">Now: {state.text}.</p>}
    </Hop>
  )
}

interface HopProps {
  title: string
  state: string
  children: preact.ComponentChildren
}

function Hop({ title, state, children }: HopProps) {
  return (
    <li class="hop">
      <span class={`dot ${state}`} />
      <div>
        <strong>{title}</strong>
        {children}
      </div>
    </li>
  )
}
