// Readers of envelopes, by the service that they use, and what each service has lost.
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
          <Table readers={readers} />
          {readers.some((service) => service.connected?.length) && <Connected readers={readers} />}
        </>
      )}
    </section>
  )
}

function Table({ readers }: { readers: ReadersEntry[] }) {
  const names = ['readers', 'matched', 'delivered', 'queued', 'lost', 'abandoned', 'refused']
  return (
    <ScrollBox className="ledger" label="Table of readers">
      <table>
        <thead>
          <tr>
            <th scope="col">service</th>
            <th scope="col">address</th>
            {names.map((name) => (
              <th key={name} scope="col" class="number">
                {name}
              </th>
            ))}
            <th scope="col">book</th>
          </tr>
        </thead>
        <tbody>
          {readers.map((entry) => (
            <Row key={entry.name} entry={entry} />
          ))}
        </tbody>
      </table>
    </ScrollBox>
  )
}

function Row({ entry }: { entry: ReadersEntry }) {
  const lost = entry.lost / Math.max(entry.matched, 1)
  // Counters of a service that is at work are read one after the other; at rest they are exact.
  const moving = entry.readers > 0
  return (
    <tr>
      <th scope="row" title={services[entry.name]}>
        {entry.name.replaceAll('_', ' ')}
        <small class="quiet">{services[entry.name]}</small>
      </th>
      <td class="mono">{entry.address}</td>
      <td class="number">{exact(entry.readers)}</td>
      <Count value={entry.matched} />
      <Count value={entry.delivered} />
      <td class="number" title={`${exact(entry.queued)} envelopes, ${bytes(entry.queued_bytes)}`}>
        {short(entry.queued)}
      </td>
      <td class={`number${entry.lost > 0 ? ' loss' : ''}`} title={`${exact(entry.lost)} envelopes`}>
        {short(entry.lost)}
        {entry.lost > 0 && <small>{percent(lost)}</small>}
      </td>
      <Count value={entry.abandoned} />
      <Count value={entry.refused} />
      <td class={`balance ${entry.unaccounted === 0 || moving ? 'good' : 'bad'}`}>
        {entry.unaccounted === 0
          ? 'balances'
          : `${exact(entry.unaccounted)} ${moving ? 'in flight' : 'unaccounted'}`}
      </td>
    </tr>
  )
}

/** Who is connected, with the shard that they share. */
function Connected({ readers }: { readers: ReadersEntry[] }) {
  const names = ['matched', 'delivered', 'queued', 'lost']
  return (
    <ScrollBox className="ledger" label="Table of connected readers">
      <table>
        <thead>
          <tr>
            <th scope="col">client</th>
            <th scope="col">service</th>
            <th scope="col">shard</th>
            <th scope="col">selects</th>
            {names.map((name) => (
              <th key={name} scope="col" class="number">
                {name}
              </th>
            ))}
            <th scope="col">book</th>
          </tr>
        </thead>
        <tbody>
          {readers.flatMap((service) =>
            (service.connected ?? []).map((reader) => (
              <ConnectedRow
                key={reader.peer + reader.since}
                service={service.name}
                reader={reader}
              />
            )),
          )}
        </tbody>
      </table>
    </ScrollBox>
  )
}

function ConnectedRow({ service, reader }: { service: string; reader: ReaderEntry }) {
  return (
    <tr>
      <th scope="row" class="mono" title={`since ${reader.since}`}>
        {reader.peer}
      </th>
      <td>{service.replaceAll('_', ' ')}</td>
      <td class="mono">{reader.shard_id || <span class="quiet">none: gets all</span>}</td>
      <td>{reader.selects}</td>
      <Count value={reader.matched} />
      <Count value={reader.delivered} />
      <td class="number" title={`${exact(reader.queued)} envelopes, ${bytes(reader.queued_bytes)}`}>
        {short(reader.queued)}
      </td>
      <td
        class={`number${reader.lost > 0 ? ' loss' : ''}`}
        title={`${exact(reader.lost)} envelopes`}
      >
        {short(reader.lost)}
      </td>
      <td class={`balance ${reader.unaccounted === 0 ? 'good' : 'bad'}`}>
        {reader.unaccounted === 0 ? 'balances' : `${exact(reader.unaccounted)} unaccounted`}
      </td>
    </tr>
  )
}
