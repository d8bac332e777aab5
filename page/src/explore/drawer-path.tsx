// The path of a record through weir with its times, as far as they are known: when it was written, when
// weir received it and where it stands in its stream, and what each output still has to do with it.
import type { LogEntry, OutputStatus, StatusDocument } from '../api/schema'
import { duration, seconds, short } from '../format/numbers'
import { full } from '../format/times'
import { outputState } from '../pipeline/figures'
import { link } from '../state/location'
import { seesEverything } from '../state/session'
import { status } from '../state/status'
import { LogText } from '../ui/log-text'
import { hasPassed } from './path'

interface PathProps {
  record: LogEntry
  /** A search has found it, so the store has it. */
  isStored: boolean
}

export function PathTab({ record, isStored }: PathProps) {
  const document = status.data.value
  const outputs = document?.outputs.filter((output) => output.book.active) ?? []
  return (
    <div class="path">
      <ol class="hops">
        <Written record={record} />
        <Received record={record} />
        {document &&
          outputs.map((output) => (
            <OutputHop
              key={output.book.name}
              output={output}
              outcome={outcomeOf(output, record, isStored, document)}
            />
          ))}
      </ol>
      {seesEverything.value && (
        <p class="quiet drawer-note">
          Outputs are shown with their current state: weir counts what each of them did, but does
          not keep it for every record. The <a href={link({}, 'pipeline')}>pipeline</a> has the
          books.
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

function outcomeOf(
  output: OutputStatus,
  record: LogEntry,
  isStored: boolean,
  document: StatusDocument,
): string {
  const { book } = output
  if (book.type === 'store' && isStored) return 'Stored.'
  if (hasPassed(output, record.weir?.arrival, document)) {
    return `Passed before ${full(Date.parse(document.time))}: neither it nor what came before it waits here.`
  }
  return `May still wait: ${short(book.in_flight)} records do, the oldest for ${seconds(book.lag_seconds)}.`
}

function titleOf({ book }: OutputStatus): string {
  return book.type ? `${book.name} (${book.type})` : book.name
}

function OutputHop({ output, outcome }: { output: OutputStatus; outcome: string }) {
  const state = outputState(output)
  return (
    <Hop title={titleOf(output)} state={state.tone}>
      <p>{outcome}</p>
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
