// The ledger: three books, each of which must balance, with a clear sign if one does not.

import type { OutputStatus, SourceStatus } from '../api/schema'
import { bytes, exact } from '../format/numbers'
import type { Status } from '../state/status'
import { Count } from '../ui/count'
import { Icon } from '../ui/icon'
import { ScrollBox } from '../ui/scroll-box'
import { Discards } from './discards'
import { totalsOf } from './figures'

export function Ledger({ document }: { document: Status }) {
  const { balanced, unaccounted } = totalsOf(document)
  return (
    <section class="panel" aria-label="Ledger">
      <header>
        <h2>The books</h2>
        {balanced ? (
          <span class="badge good">
            <Icon name="check" /> they balance
          </span>
        ) : (
          <span class="badge bad">
            <Icon name="warning" /> {exact(unaccounted)} records unaccounted for
          </span>
        )}
        <span class="quiet">since the data directory was created, across restarts</span>
      </header>
      <ScrollBox className="ledger" label="Tables of the books">
        <SourceBook sources={document.sources} />
        <FileBook sources={document.sources} />
        <OutputBook outputs={document.outputs} />
        <Dropping outputs={document.outputs} />
      </ScrollBox>
    </section>
  )
}

function Balance({ rest, unit = '' }: { rest: number; unit?: string }) {
  if (rest === 0) {
    return (
      <td class="balance good">
        <Icon name="check" /> balances
      </td>
    )
  }
  return (
    <td class="balance bad">
      <Icon name="warning" /> {exact(rest)}
      {unit} unaccounted
    </td>
  )
}

function columnClass(name: string, index: number): string {
  if (name === 'book') return 'book-sign'
  return index > 0 && !/discarded|abandoned/.test(name) ? 'number' : ''
}

function Heads({ names }: { names: string[] }) {
  return (
    <thead>
      <tr>
        {names.map((name, index) => (
          <th key={name} scope="col" class={columnClass(name, index)}>
            {name}
          </th>
        ))}
      </tr>
    </thead>
  )
}

function SourceBook({ sources }: { sources: SourceStatus[] }) {
  return (
    <table class="book">
      <caption>
        Lines of sources <span class="quiet">lines = records + joined + discarded</span>
      </caption>
      <Heads
        names={['source', 'lines', 'records', 'joined', 'malformed', 'cut', 'discarded', 'book']}
      />
      <tbody>
        {sources.map(({ book }) => (
          <tr key={book.name}>
            <th scope="row">{book.name}</th>
            <Count value={book.book.lines} />
            <Count value={book.book.records} />
            <Count value={book.book.joined} />
            <Count value={book.book.malformed} />
            <Count value={book.book.truncated} />
            <Discards counts={book.book.discarded} of={book.book.lines} />
            <Balance rest={book.unaccounted_lines} />
          </tr>
        ))}
      </tbody>
    </table>
  )
}

function FileBook({ sources }: { sources: SourceStatus[] }) {
  const read = sources.filter((source) => source.book.files)
  if (read.length === 0) return null
  return (
    <table class="book">
      <caption>
        Bytes of files <span class="quiet">seen = read + unread + abandoned</span>
      </caption>
      <Heads names={['source', 'seen', 'read', 'unread', 'abandoned', 'book']} />
      <tbody>
        {read.map(({ book }) => {
          const files = book.files
          if (!files) return null
          return (
            <tr key={book.name}>
              <th scope="row">{book.name}</th>
              <td class="number" title={`${exact(files.bytes_seen)} bytes`}>
                {files.at_least ? '≥ ' : ''}
                {bytes(files.bytes_seen)}
              </td>
              <td class="number">{bytes(book.book.bytes_read)}</td>
              <td class="number">{bytes(files.bytes_unread)}</td>
              <Discards counts={book.book.bytes_abandoned} of={files.bytes_seen} />
              <Balance rest={files.unaccounted_bytes} unit=" bytes" />
            </tr>
          )
        })}
      </tbody>
    </table>
  )
}

function OutputBook({ outputs }: { outputs: OutputStatus[] }) {
  // Only drains move records, or have some that nobody wanted.
  const drained = outputs.some(({ book }) => book.book.moved || book.book.unbound)
  return (
    <table class="book">
      <caption>
        Records of outputs{' '}
        <span class="quiet">
          routed = delivered + discarded + dead-lettered + moved + unwanted + in flight
        </span>
      </caption>
      <Heads
        names={[
          'output',
          'routed',
          'delivered',
          'in flight',
          'dead-lettered',
          'resent',
          ...(drained ? ['moved', 'unwanted'] : []),
          'discarded',
          'book',
        ]}
      />
      <tbody>
        {outputs.map(({ book }) => (
          <tr key={book.name}>
            <th scope="row">
              {book.name}
              {!book.active && <span class="badge">no longer configured</span>}
            </th>
            <Count value={book.book.routed} />
            <Count value={book.book.delivered} />
            <Count value={book.in_flight} />
            <Count value={book.book.dead_lettered} />
            <Count value={book.book.resent} />
            {drained && <Count value={book.book.moved ?? 0} />}
            {drained && <Count value={book.book.unbound ?? 0} />}
            <Discards counts={book.book.discarded} of={book.book.routed} />
            <Balance rest={book.unaccounted_records} />
          </tr>
        ))}
      </tbody>
    </table>
  )
}

/** How to discard what is kept for outputs that were removed. */
function Dropping({ outputs }: { outputs: OutputStatus[] }) {
  const removed = outputs.find(({ book }) => !book.active)
  if (!removed) return null
  return (
    <p class="quiet">
      What waits for an output that is no longer configured is kept in case the output returns.{' '}
      <code>weir cursor drop {removed.book.name}</code> discards it.
    </p>
  )
}
