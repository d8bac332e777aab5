// The path of a record through weir: each hop with its time and the delay since the previous one.
// Where nothing is known about a single record, what is known about all records is shown.
import { useSignal } from '@preact/signals'
import { useEffect } from 'preact/hooks'
import { get } from '../api/client'
import type { LogEntry, PathAnswer, PathHop } from '../api/schema'
import { full } from '../format/times'
import { link } from '../state/location'
import { createResource } from '../state/resource'
import { seesEverything } from '../state/session'
import { LogText } from '../ui/log-text'
import {
  delayText,
  isOnItsWay,
  meanText,
  ownHops,
  stateText,
  timeNote,
  titleOf,
  toneOf,
} from './path'

/** How soon to ask again while the record is on its way, milliseconds; a disk takes longer. */
const askSoon = 1_000
const askLater = 5_000

function pauseBehind(answer: PathAnswer | undefined): number {
  const waits = answer?.hops.some(({ kind, state }) => kind !== 'segment' && state !== 'passed')
  return waits ? askSoon : askLater
}

function usePath(id: string): PathAnswer | undefined {
  const found = useSignal(createResource<PathAnswer>()).value
  useEffect(() => {
    let timer = 0
    const load = async () => {
      await found.ask((signal) => get('/weir/v1/path', { id }, signal))
      const answer = found.data.peek()
      const isOver = answer ? !isOnItsWay(answer) : found.problem.peek()?.kind === 'refused'
      if (!isOver) timer = window.setTimeout(load, pauseBehind(answer))
    }
    load()
    return () => {
      window.clearTimeout(timer)
      found.clear()
    }
  }, [id, found])
  return found.data.value
}

export function PathTab({ record }: { record: LogEntry }) {
  const answer = usePath(record.id)
  const hops = answer?.hops ?? ownHops(record)
  return (
    <div class="path">
      <ol class="hops">
        {hops.map((hop) => (
          <Hop key={`${hop.kind} ${hop.name ?? ''}`} hop={hop}>
            {hop.kind === 'written' && <Writer record={record} />}
            {hop.kind === 'received' && <Place record={record} />}
          </Hop>
        ))}
      </ol>
      {seesEverything.value && (
        <p class="quiet drawer-note">
          Times at the journal and at outputs are those of batches, kept in memory for the last
          16,384 of them. The <a href={link({}, 'pipeline')}>pipeline</a> has the books.
        </p>
      )}
    </div>
  )
}

interface HopProps {
  hop: PathHop
  children: preact.ComponentChildren
}

function Hop({ hop, children }: HopProps) {
  const delay = delayText(hop)
  return (
    <li class="hop">
      <span class={`dot ${toneOf(hop)}`} />
      <div class="hop-body">
        <strong>
          <LogText text={titleOf(hop)} />
        </strong>
        <When hop={hop} />
        {delay && <p class="hop-delay">{delay}</p>}
        {[stateText(hop), meanText(hop)].map((text) => text && <p key={text}>{text}</p>)}
        {children}
      </div>
    </li>
  )
}

/** A time in the selected zone, with the exact one as a tooltip. */
function When({ hop }: { hop: PathHop }) {
  const { time, kind } = hop
  if (!time) return kind === 'received' ? <p class="quiet">time not known</p> : null
  const note = timeNote(hop)
  return (
    <p class="hop-when">
      <time class="mono" dateTime={time} title={time}>
        {full(Date.parse(time))}
      </time>
      {note && <span class="quiet"> {note}</span>}
    </p>
  )
}

function Writer({ record }: { record: LogEntry }) {
  const { service, host } = record.attributes
  return (
    <p>
      by <LogText text={`${service || 'a program'}${host ? ` on ${host}` : ''}`} />
    </p>
  )
}

function Place({ record }: { record: LogEntry }) {
  const { stream, position } = record.weir ?? {}
  return (
    <dl class="pairs">
      <dt>stream</dt>
      <dd class="mono">{stream || 'not known'}</dd>
      <dt>position</dt>
      <dd class="mono">{position || 'not known'}</dd>
    </dl>
  )
}
