// The screen of drains and readers: where records of applications go, what is waiting, and what was
// lost.
import { useSignal } from '@preact/signals'
import { useEffect } from 'preact/hooks'
import '../styles/pipeline.css'
import '../styles/drains.css'
import { get } from '../api/client'
import type { DrainsDocument, LedgerDocument } from '../api/schema'
import { exact, rate, seconds, short } from '../format/numbers'
import { NoisyKeys } from '../pipeline/noisy'
import { QuotaKeys } from '../pipeline/quota'
import { createResource } from '../state/resource'
import { mayChange, seesEverything } from '../state/session'
import { status } from '../state/status'
import { topology } from '../state/topology'
import { Button } from '../ui/button'
import { Command } from '../ui/command'
import { Figure } from '../ui/figure'
import { Empty, ProblemView, Skeleton } from '../ui/states'
import { AddDrain } from './add'
import { drainTotals, ratesOf } from './figures'
import { DrainTable } from './list'
import { Providers } from './providers'
import { Readers } from './readers'

const askEvery = 2_000

interface Found {
  before: DrainsDocument | undefined
  after: DrainsDocument
  ledger: LedgerDocument
}

export function Drains() {
  const found = useSignal(createResource<Found>()).value
  const adding = useSignal(false)
  const ask = () =>
    found.ask(async (signal) => {
      const [after, ledger] = await Promise.all([
        get('/weir/v1/drains', {}, signal),
        get('/weir/v1/ledger', {}, signal),
      ])
      return { before: found.data.peek()?.after, after, ledger }
    })
  useEffect(() => {
    ask()
    const timer = window.setInterval(() => !document.hidden && ask(), askEvery)
    return () => window.clearInterval(timer)
  }, [found])

  const data = found.data.value
  if (!data) {
    const problem = found.problem.value
    if (problem) return <ProblemView problem={problem} again={ask} />
    return <Skeleton lines={14} label="Loading the drains" />
  }
  const readers = data.ledger.readers ?? []
  const add = () => {
    adding.value = true
  }
  return (
    <div class="scroll pipeline-main">
      <Body data={data} add={add} changed={ask} />
      {(seesEverything.value || readers.length > 0) && <Readers readers={readers} />}
      {seesEverything.value && (
        <div class="two-panels">
          <NoisyKeys />
          <QuotaKeys sources={data.ledger.sources} />
        </div>
      )}
      {adding.value && (
        <AddDrain
          onAdded={ask}
          onClose={() => {
            adding.value = false
          }}
        />
      )}
    </div>
  )
}

interface BodyProps {
  data: Found
  add: () => void
  changed: () => void
}

function Body({ data, add, changed }: BodyProps) {
  const document = data.after
  if (document.drains.length === 0 && document.providers.length === 0) return <NoDrains add={add} />
  const rates = ratesOf(data.before, data.after)
  return (
    <>
      <Figures data={data} rates={rates} />
      <DrainTable drains={document.drains} rates={rates} add={add} changed={changed} />
      <Providers providers={document.providers} />
    </>
  )
}

/** Whether the configuration has a section for drains, as far as that is known. */
function areOff(): boolean {
  const nodes = topology.value?.nodes
  return nodes !== undefined && !nodes.some((node) => node.id === 'output:drains')
}

function NoDrains({ add }: { add: () => void }) {
  if (!seesEverything.value) return <NoOwnDrains />
  const off = areOff()
  return (
    <section class="panel" aria-label="Drains">
      <Empty
        title={off ? 'Drains are off' : 'No drains yet'}
        actions={
          !off &&
          mayChange.value && (
            <Button kind="primary" icon="plus" onClick={add}>
              Add a drain
            </Button>
          )
        }
      >
        <p>
          A drain sends the records of one application, or of a space, an organization or
          everything, to a destination chosen by its owner: syslog over TCP or TLS, or HTTPS.
        </p>
        {off ? (
          <p>
            Add a <code>[drains]</code> section to the configuration, an empty one is enough, and
            drains can be added here or with <code>weir drains add</code>.
          </p>
        ) : (
          <>
            <p>
              They are defined in the configuration, by a binding cache, on this page, or on the
              command line.
            </p>
            <Command
              text="weir drains add syslog-tls://logs.example.com:6514 --app ID"
              does="A drain for one application, added to the weir of this machine."
            />
          </>
        )}
      </Empty>
    </section>
  )
}

function NoOwnDrains() {
  return (
    <section class="panel" aria-label="Drains">
      <Empty title="Your applications have no drains">
        <p>
          A drain sends the records of an application to a destination of your choice. Bind a
          service to the application that sends its log there, or ask an operator to add one.
        </p>
      </Empty>
    </section>
  )
}

function Figures({ data, rates }: { data: Found; rates: Map<string, number> }) {
  const document = data.after
  const totals = drainTotals(document)
  const sent = [...rates.values()].reduce((sum, one) => sum + one, 0)
  const lagging = status.value?.outputs.find(({ book }) => book.name === 'drains/lagging')
  const lag = lagging?.book.lag_seconds ?? 0
  return (
    <section class="figures" aria-label="Summary">
      <Figure
        name="drains"
        value={exact(document.drains.length)}
        tone={totals.troubled > 0 ? 'bad' : ''}
        note={totals.troubled > 0 ? `${exact(totals.troubled)} failing` : 'none is failing'}
      />
      <Figure
        name="sent"
        value={data.before ? rate(sent) : '…'}
        note={`${short(totals.delivered)} records in all`}
      />
      <Figure
        name="waiting"
        value={short(totals.waiting)}
        note={
          lag >= 1 ? `on disk, the oldest for ${seconds(lag)}` : 'records, in memory and on disk'
        }
      />
      <Figure
        name="lost"
        value={short(totals.lost)}
        tone={totals.lost > 0 ? 'bad' : 'good'}
        note={totals.lost > 0 ? 'reasons in the table' : 'none so far'}
      />
      <Figure
        name="books"
        value={totals.balanced ? 'balance' : 'do not balance'}
        tone={totals.balanced ? 'good' : 'bad'}
        note={totals.balanced ? 'of every drain' : 'please report this: it is a bug in weir'}
      />
    </section>
  )
}
