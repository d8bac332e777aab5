// Readers of envelopes, by the service they use, and what each service has lost.
import type { ComponentChildren } from 'preact'
import type { ReaderEntry, ReadersEntry } from '../api/schema'
import { bytes, exact, percent, short } from '../format/numbers'
import { Count } from '../ui/count'
import { ScrollBox } from '../ui/scroll-box'

const services: Record<string, string> = {
  egress: 'reverse log proxy, gRPC',
  gateway: 'reverse log proxy gateway, HTTP',
  traffic_controller: 'v1 envelopes, WebSockets',
  log_cache: 'stored envelopes',
}

export function Readers({ readers }: { readers: ReadersEntry[] }) {
  return (
    <section class="panel" aria-label="Readers">
      <header>
        <h2>Readers of streams</h2>
        <span class="quiet">
          matched = delivered + lost + abandoned + queued, counted for each reader since the start
        </span>
      </header>
      {readers.length === 0 ? (
        <p class="panel-note quiet">
          No service for readers is configured: <code>[loggregator.egress]</code> or{' '}
          <code>[loggregator.gateway]</code> serve nozzles and Loggregator clients.
        </p>
      ) : (
        <>
          <Services readers={readers} />
          {readers.some((service) => service.connected?.length) && <Connected readers={readers} />}
        </>
      )}
    </section>
  )
}

/** The columns of `Terms`. */
const terms = ['matched', 'delivered', 'queued', 'lost']

interface TableProps {
  label: string
  texts: string[]
  numbers: string[]
  children: ComponentChildren
}

function Table({ label, texts, numbers, children }: TableProps) {
  return (
    <ScrollBox className="ledger" label={label}>
      <table>
        <thead>
          <tr>
            {texts.map((name) => (
              <th key={name} scope="col">
                {name}
              </th>
            ))}
            {numbers.map((name) => (
              <th key={name} scope="col" class="number">
                {name}
              </th>
            ))}
            <th scope="col">book</th>
          </tr>
        </thead>
        <tbody>{children}</tbody>
      </table>
    </ScrollBox>
  )
}

/** The terms of a book, with a note on what was lost. */
function Terms({ of, note }: { of: ReadersEntry | ReaderEntry; note?: string | undefined }) {
  return (
    <>
      <Count value={of.matched} />
      <Count value={of.delivered} />
      <td class="number" title={`${exact(of.queued)} envelopes, ${bytes(of.queued_bytes)}`}>
        {short(of.queued)}
      </td>
      <td class={`number${of.lost > 0 ? ' loss' : ''}`} title={`${exact(of.lost)} envelopes`}>
        {short(of.lost)}
        {note && <small>{note}</small>}
      </td>
    </>
  )
}

/** Whether a book balances; while it is moving, its terms are from different moments. */
function Balance({ unaccounted, moving }: { unaccounted: number; moving: boolean }) {
  return (
    <td class={`balance ${unaccounted === 0 || moving ? 'good' : 'bad'}`}>
      {unaccounted === 0
        ? 'balances'
        : `${exact(unaccounted)} ${moving ? 'in flight' : 'unaccounted'}`}
    </td>
  )
}

function Services({ readers }: { readers: ReadersEntry[] }) {
  const numbers = ['readers', ...terms, 'abandoned', 'refused']
  return (
    <Table label="Table of readers" texts={['service', 'address']} numbers={numbers}>
      {readers.map((entry) => (
        <Service key={entry.name} entry={entry} />
      ))}
    </Table>
  )
}

function Service({ entry }: { entry: ReadersEntry }) {
  const lost = entry.lost / Math.max(entry.matched, 1)
  return (
    <tr>
      <th scope="row" title={services[entry.name]}>
        {entry.name.replaceAll('_', ' ')}
        <small class="quiet">{services[entry.name]}</small>
      </th>
      <td class="mono">{entry.address}</td>
      <td class="number">{exact(entry.readers)}</td>
      <Terms of={entry} note={entry.lost > 0 ? percent(lost) : undefined} />
      <Count value={entry.abandoned} />
      <Count value={entry.refused} />
      <Balance unaccounted={entry.unaccounted} moving={entry.readers > 0} />
    </tr>
  )
}

/** Who is connected, with the shard that they share. */
function Connected({ readers }: { readers: ReadersEntry[] }) {
  const texts = ['client', 'service', 'shard', 'selects']
  return (
    <Table label="Table of connected readers" texts={texts} numbers={terms}>
      {readers.flatMap((service) =>
        (service.connected ?? []).map((reader) => (
          <Client key={reader.peer + reader.since} service={service.name} reader={reader} />
        )),
      )}
    </Table>
  )
}

function Client({ service, reader }: { service: string; reader: ReaderEntry }) {
  return (
    <tr>
      <th scope="row" class="mono" title={`since ${reader.since}`}>
        {reader.peer}
      </th>
      <td>{service.replaceAll('_', ' ')}</td>
      <td class="mono">{reader.shard_id || <span class="quiet">none: gets all</span>}</td>
      <td>{reader.selects}</td>
      <Terms of={reader} />
      <Balance unaccounted={reader.unaccounted} moving={false} />
    </tr>
  )
}
