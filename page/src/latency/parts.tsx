// Service time and queueing delay. The delay is the total time minus the service time; it is
// computed where records do not have it.
import { useSignal } from '@preact/signals'
import { useEffect } from 'preact/hooks'
import { question } from '../explore/question'
import { percent } from '../format/numbers'
import { quoteKey } from '../query/quote'
import { go } from '../state/location'
import { isOutdated } from '../state/resource'
import { Button } from '../ui/button'
import { Legend, TableButton } from '../ui/chart'
import { Select } from '../ui/select'
import { Skeleton } from '../ui/states'
import { pair, suggestedPair, timeFields } from './choice'
import { LinesChart } from './lines-chart'
import { loadParts, type Parts as PartsAnswer, parts } from './load'

const figures = ['avg', 'pc50', 'pc90', 'pc99']
const figureNames: Record<string, string> = {
  avg: 'mean',
  pc50: 'median',
  pc90: '90th percentile',
  pc99: '99th percentile',
}

export function Parts() {
  const figure = useSignal('avg')
  const asTable = useSignal(false)
  const chosen = pair.value
  const asked = question.value
  const shown = figure.value
  useEffect(() => {
    if (chosen) loadParts(asked, chosen, shown)
  }, [asked, chosen, shown])
  return (
    <section class="panel" aria-label="Service time and queueing delay">
      <header>
        <h2>Service time and queueing delay</h2>
        {chosen && parts.data.value && <Legend series={parts.data.value.series} />}
        <span class="grow" />
        {chosen && (
          <label class="labelled">
            as
            <Select
              value={shown}
              options={figures}
              label={(one) => figureNames[one] ?? one}
              onChange={(next) => {
                figure.value = next
              }}
            />
          </label>
        )}
        {chosen && <TableButton shown={asTable} />}
      </header>
      {chosen ? <Shown figure={shown} asTable={asTable.value} /> : <Choose />}
    </section>
  )
}

function Shown({ figure, asTable }: { figure: string; asTable: boolean }) {
  const found = parts.data.value
  if (!found) return <Skeleton lines={8} label="Computing" />
  return (
    <div class={`panel-body${isOutdated(parts) ? ' stale' : ''}`}>
      <Verdict found={found} />
      <LinesChart
        label="Service time and queueing delay over time"
        kind={figure === 'avg' ? 'area' : 'lines'}
        found={found}
        asTable={asTable}
      />
    </div>
  )
}

/** The chart in one sentence. */
function Verdict({ found: { service, queueing } }: { found: PartsAnswer }) {
  if (service + queueing === 0) return <p class="quiet">No record in this range has both fields.</p>
  const share = queueing / (service + queueing)
  const advice =
    share > 0.5
      ? 'Requests mostly wait for a worker: more workers or fewer requests would help more than faster code.'
      : share > 0.2
        ? 'Waiting is a considerable part: examine the load as well as the service time.'
        : 'Requests hardly wait: nearly all of the time is service time.'
  return (
    <p class="verdict">
      <strong>{percent(share)}</strong> of the time is queueing delay. {advice}
    </p>
  )
}

function Choose() {
  const names = timeFields.value
  const [total = names[0] ?? '', service = names[1] ?? ''] = suggestedPair.value ?? []
  const chosenTotal = useSignal(total)
  const chosenService = useSignal(service)
  return (
    <div class="panel-body choose">
      <p>
        Select the field with the total time of a request, and the one with its service time. The
        difference is the queueing delay, computed for this query only.
      </p>
      <div class="row">
        <label class="labelled">
          total time
          <Select
            value={chosenTotal.value}
            options={names}
            onChange={(next) => {
              chosenTotal.value = next
            }}
          />
        </label>
        <label class="labelled">
          service time
          <Select
            value={chosenService.value}
            options={names}
            onChange={(next) => {
              chosenService.value = next
            }}
          />
        </label>
        <Button
          small
          kind="primary"
          onClick={() =>
            go({
              measure: `queueing_delay = ${quoteKey(chosenTotal.value)} - ${quoteKey(chosenService.value)}`,
              service: chosenService.value,
            })
          }
        >
          Show both
        </Button>
      </div>
    </div>
  )
}
