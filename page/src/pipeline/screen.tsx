// The pipeline: rates, backlog, losses, and whether the books balance.
import { useSignal } from '@preact/signals'
import { useEffect } from 'preact/hooks'
import '../styles/pipeline.css'
import { get } from '../api/client'
import type { RulesDocument } from '../api/schema'
import { bytes, exact, percent, rate, seconds, short } from '../format/numbers'
import { ago } from '../format/times'
import { createResource, type Resource } from '../state/resource'
import { health, type Status, status } from '../state/status'
import { topology, topologyAt, topologyProblem } from '../state/topology'
import { Figure } from '../ui/figure'
import { LogText } from '../ui/log-text'
import { ProblemView, Skeleton } from '../ui/states'
import { totalsOf } from './figures'
import { incoming, steady } from './history'
import { Ledger } from './ledger'
import { NodeDrawer } from './node-drawer'
import { NoisyKeys } from './noisy'
import { QuotaKeys } from './quota'
import { Rules } from './rules'
import { topologyOf } from './topology'
import { TopologyView } from './topology-view'

const rulesEvery = 3_000
/** How long the parts of the screen wait for each other, milliseconds. */
const longestWait = 1_500

export function Pipeline() {
  const rules = useSignal(createResource<RulesDocument>()).value
  useEffect(() => {
    const ask = () => rules.ask((signal) => get('/weir/v1/rules', {}, signal))
    ask()
    const timer = window.setInterval(() => !document.hidden && ask(), rulesEvery)
    return () => window.clearInterval(timer)
  }, [rules])

  const waited = useWaited()
  const found = status.value
  const problem = topologyProblem.value
  if (!found && problem) return <ProblemView problem={problem} />
  const graph = topology.value && topologyOf(topology.value, rules.data.value)
  // All parts at once, so that none moves when another one arrives.
  const isComplete = graph && (rules.data.value || rules.problem.value)
  if (!found || !(isComplete || waited)) return <Skeleton lines={14} label="Loading the pipeline" />
  return (
    <div class="pipeline">
      <div class="scroll pipeline-main">
        <Figures document={found} />
        <Problems />
        {graph ? (
          <TopologyView topology={graph} />
        ) : (
          <Skeleton lines={4} label="Loading the topology" />
        )}
        <Ledger document={found} />
        <Below rules={rules} document={found} />
      </div>
      {graph && <NodeDrawer document={found} topology={graph} />}
    </div>
  )
}

/** Whether to show the parts that have arrived, although others are missing. */
function useWaited(): boolean {
  const waited = useSignal(false)
  useEffect(() => {
    const timer = window.setTimeout(() => {
      waited.value = true
    }, longestWait)
    return () => window.clearTimeout(timer)
  }, [waited])
  return waited.value
}

interface BelowProps {
  rules: Resource<RulesDocument>
  document: Status
}

function Below({ rules, document }: BelowProps) {
  return (
    <div class="two-panels">
      <Rules rules={rules} />
      <NoisyKeys />
      <QuotaKeys sources={document.sources.map((source) => source.book)} />
    </div>
  )
}

function Figures({ document }: { document: Status }) {
  const totals = totalsOf(document)
  const cpu = steady('cpu')
  const loss = totals.lost + totals.deadLettered
  const base = totals.taken + totals.lost
  const stale = Date.now() - topologyAt.value > 5_000
  return (
    <section class={`figures${stale ? ' stale' : ''}`} aria-label="Summary">
      <Figure
        name="incoming"
        value={rate(incoming(document) ?? 0)}
        note={`${short(totals.taken)} records in total`}
      />
      <Figure
        name="lost"
        value={short(loss)}
        tone={loss > 0 ? 'bad' : 'good'}
        note={
          loss > 0
            ? `${percent(loss / Math.max(base, 1))}, ${exact(totals.deadLettered)} of them dead-lettered`
            : 'none since the data directory was created'
        }
      />
      <Figure
        name="books"
        value={totals.balanced ? 'balance' : `${short(totals.unaccounted)} unaccounted`}
        tone={totals.balanced ? 'good' : 'bad'}
        note={
          totals.balanced
            ? 'every record is accounted for'
            : 'please report this: it is a bug in weir'
        }
      />
      <Figure name="CPU" value={cpu === undefined ? '…' : percent(cpu)} note="of one core" />
      <Figure name="memory" value={bytes(document.resident_bytes)} note="of the whole process" />
      <Figure
        name="up"
        value={seconds(document.uptime_seconds)}
        note={`weir ${document.version}${stale ? `, as of ${ago(topologyAt.value, Date.now())}` : ''}`}
      />
    </section>
  )
}

function Problems() {
  const reasons = health.value?.reasons ?? []
  if (reasons.length === 0) return null
  return (
    <section class="panel problems" aria-label="Problems">
      <ul class="plain-list">
        {reasons.map((reason) => (
          <li key={reason.component + reason.text}>
            <span class="dot bad" />
            <strong>{reason.component}</strong>
            <span class="grow">
              <LogText text={reason.text} />
            </span>
            <span class="quiet">started {ago(Date.parse(reason.since), Date.now())}</span>
          </li>
        ))}
      </ul>
    </section>
  )
}
