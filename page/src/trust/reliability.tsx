// Reliability: what the books say about delivery, and how to verify it.
import '../styles/pipeline.css'
import '../styles/trust.css'
import { exact, percent, seconds, short } from '../format/numbers'
import { totalsOf } from '../pipeline/figures'
import { link } from '../state/location'
import { status } from '../state/status'
import { topologyProblem } from '../state/topology'
import { Command } from '../ui/command'
import { Count } from '../ui/count'
import { Figure } from '../ui/figure'
import { ScrollBox } from '../ui/scroll-box'
import { ProblemView, Skeleton } from '../ui/states'
import {
  allowedLoss,
  budgetLeft,
  budgetText,
  type Delivery,
  deliveriesOf,
  ratioText,
} from './delivery'
import { Recorded, useRecorded } from './recorded-panels'
import { target } from './target'

export function Reliability() {
  const found = status.value
  const isRecorded = useRecorded()
  if (!found || !isRecorded) {
    const problem = topologyProblem.value
    if (problem) return <ProblemView problem={problem} />
    return <Skeleton lines={12} label="Loading the books" />
  }
  const deliveries = deliveriesOf(found)
  const totals = totalsOf(found)
  const loss = totals.lost + totals.deadLettered
  const late = Math.max(0, ...deliveries.map((one) => one.late))
  return (
    <div class="scroll pipeline-main">
      <section class="figures" aria-label="Summary">
        <Figure
          name="records received"
          value={short(totals.taken)}
          note="since the data directory was created"
        />
        <Figure
          name="lost"
          value={short(loss)}
          tone={loss > 0 ? 'bad' : 'good'}
          note={loss > 0 ? 'by destination below' : 'none'}
        />
        <Figure
          name="lag"
          value={late >= 1 ? seconds(late) : 'none'}
          note="age of the oldest waiting record"
        />
        <Figure
          name="books"
          value={totals.balanced ? 'balance' : 'do not balance'}
          tone={totals.balanced ? 'good' : 'bad'}
          note={totals.balanced ? 'these figures are complete' : 'these figures are incomplete'}
        />
      </section>
      <Recorded />
      <Table deliveries={deliveries} />
      <Measuring />
    </div>
  )
}

function Table({ deliveries }: { deliveries: Delivery[] }) {
  const names = ['received', 'delivered', 'lost', 'discarded as configured', 'waiting', 'lag']
  return (
    <section class="panel" aria-label="Delivery">
      <header>
        <h2>Since the data directory was created</h2>
        <span class="quiet">arrived = delivered / (delivered + lost), across restarts</span>
      </header>
      <ScrollBox className="ledger" label="Table of delivery">
        <table>
          <thead>
            <tr>
              <th scope="col">component</th>
              <th scope="col" class="number">
                arrived
              </th>
              <th
                scope="col"
                class="number"
                title="What may still be lost before less than the target has arrived"
              >
                error budget left
              </th>
              {names.map((name) => (
                <th key={name} scope="col" class="number">
                  {name}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {deliveries.map((one) => (
              <Row key={`${one.kind} ${one.name}`} one={one} />
            ))}
          </tbody>
        </table>
      </ScrollBox>
    </section>
  )
}

function Row({ one }: { one: Delivery }) {
  return (
    <tr>
      <th scope="row">
        {one.kind === 'source' ? `from ${one.name}` : `to ${one.name}`}{' '}
        {!one.balanced && <span class="badge bad">does not balance</span>}
      </th>
      <td class={`number ratio ${one.lost > 0 ? 'loss' : ''}`}>{ratioText(one)}</td>
      <Budget one={one} />
      <Count value={one.received} />
      <Count value={one.delivered} />
      <td class={`number ${one.lost > 0 ? 'loss' : 'quiet'}`} title={exact(one.lost)}>
        {short(one.lost)}
        {one.lost > 0 && ` (${percent(one.lost / Math.max(one.received, 1))})`}
      </td>
      <Count value={one.chosen} />
      <td class={`number${one.waiting > 0 ? '' : ' quiet'}`} title={exact(one.waiting)}>
        {short(one.waiting)}
        {one.searchable > 0 && (
          <small class="quiet" title="The store has them; it counts them once they are durable">
            {' '}
            {short(one.searchable)} searchable
          </small>
        )}
      </td>
      <td class="number">{one.late >= 1 ? seconds(one.late) : '–'}</td>
    </tr>
  )
}

function Budget({ one }: { one: Delivery }) {
  const wanted = Number(target.value) / 100
  const left = budgetLeft(one, wanted)
  if (left === undefined) return <td class="number quiet">–</td>
  const most = exact(Math.floor(allowedLoss(one, wanted)))
  return (
    <td
      class={`number${left < 0 ? ' loss' : ''}`}
      title={`${exact(one.lost)} of ${most} records that may be lost`}
    >
      {budgetText(left)}
    </td>
  )
}

function Measuring() {
  return (
    <section class="panel" aria-label="Measuring">
      <header>
        <h2>Verify independently</h2>
      </header>
      <div class="measuring">
        <p>
          The tables above show weir's own counts. These commands verify delivery independently of
          them; their results are printed and are not stored.
        </p>
        <Command
          text="weir torture --for 60s"
          does="Kills weir, fills its disk, damages its journal and compares every written line with what arrived. It uses its own directory."
        />
        <Command
          text="weir load file --rate 1000 --duration 60s"
          does="Writes numbered lines at a known rate, for the weir that runs here; lines missing at the destination are lost."
        />
        <Command
          text="weir ledger"
          does="The books of this weir. Exits with code 6 if they do not balance, for use in scripts."
        />
        <p class="quiet">
          To monitor delivery over months, or of several machines, let Prometheus scrape{' '}
          <a href={metrics()}>/metrics</a>; it has the same counts of lost records as{' '}
          <a href={link({}, 'pipeline')}>the books</a>.
        </p>
      </div>
    </section>
  )
}

function metrics(): string {
  return new URL('metrics', new URL('.', document.baseURI)).href
}
