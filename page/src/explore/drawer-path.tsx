// The path of a record through weir, as far as it is known: where it was taken in, where it stands in
// its stream, and which outputs there are.
import type { LogEntry } from '../api/schema'
import { seconds, short } from '../format/numbers'
import { full } from '../format/times'
import { outputState } from '../pipeline/figures'
import { link } from '../state/location'
import { status } from '../state/status'

export function PathTab({ record }: { record: LogEntry }) {
  const details = record.weir
  const outputs = status.data.value?.outputs.filter((output) => output.book.active) ?? []
  return (
    <div class="path">
      <ol class="hops">
        <Hop title="Written" state="good">
          <p>
            {record.attributes.service ?? 'A program'}
            {record.attributes.host ? ` on ${record.attributes.host}` : ''},{' '}
            {full(Date.parse(record.attributes.timestamp))}
          </p>
        </Hop>
        <Hop title={`Received by ${details?.source ?? 'weir'}`} state="good">
          <dl class="pairs">
            <dt>exact time</dt>
            <dd class="mono">{details?.timestamp ?? 'not known'}</dd>
            <dt>stream</dt>
            <dd class="mono">{details?.stream ?? 'not known'}</dd>
            <dt>position</dt>
            <dd class="mono">{details?.position ?? 'not known'}</dd>
          </dl>
        </Hop>
        {outputs.map((output) => (
          <Hop key={output.book.name} title={output.book.name} state={outputState(output).tone}>
            <p>
              {output.book.type === 'store'
                ? 'Stored.'
                : `${outputState(output).text}; ${short(output.book.in_flight)} records wait, the oldest for ${seconds(output.book.lag_seconds)}.`}
            </p>
          </Hop>
        ))}
      </ol>
      <p class="quiet drawer-note">
        The current state of all outputs; which of them received this record, and when, is not
        recorded yet. The <a href={link({}, 'pipeline')}>pipeline</a> has the books.
      </p>
    </div>
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
