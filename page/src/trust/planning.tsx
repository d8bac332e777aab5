// The panel with the planning table: the rates of this weir's records, and a capacity that the user
// has measured.
import { useEffect } from 'preact/hooks'
import { now } from '../api/client'
import { nothingTaken } from '../explore/nothing-yet'
import { rate, seconds } from '../format/numbers'
import { ScrollBox } from '../ui/scroll-box'
import { ProblemView, Skeleton } from '../ui/states'
import { capacity, type Intake, intake, loadIntake, type Plan, plansOf } from './planning-table'

export function Planning() {
  useEffect(() => {
    loadIntake(now())
  }, [])
  const found = intake.data.value
  return (
    <section class="panel" aria-label="Planning">
      <header>
        <h2>Planning</h2>
        {found && found.rates.length > 0 && <span class="quiet">{basisOf(found)}</span>}
      </header>
      {nothingTaken.value || found?.rates.length === 0 ? (
        <p class="panel-note quiet">
          It begins a few minutes after the first record, and improves for two weeks.
        </p>
      ) : (
        <div class="planning">{found ? <Found found={found} /> : <Unknown />}</div>
      )}
    </section>
  )
}

/** What the rates are of. */
function basisOf({ length, step }: Intake): string {
  if (step !== undefined)
    return `stored records of the last ${seconds(length)}, in intervals of ${seconds(step)}`
  return `received in the last ${seconds(length)}, by the minute; before the last day, by the hour`
}

function Unknown() {
  const problem = intake.problem.value
  if (!problem) return <Skeleton lines={8} label="Counting records" />
  return <ProblemView problem={problem} again={() => loadIntake(now())} />
}

function Found({ found }: { found: Intake }) {
  return (
    <>
      <CapacityField />
      <ScrollBox className="ledger" label="Planning table">
        <table>
          <thead>
            <tr>
              <th scope="col">enough for</th>
              {['incoming', 'machines', 'cost'].map((name) => (
                <th key={name} scope="col" class="number">
                  {name}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {plansOf(found.rates, capacity.value).map((plan) => (
              <Row key={plan.name} plan={plan} />
            ))}
          </tbody>
        </table>
      </ScrollBox>
    </>
  )
}

function CapacityField() {
  return (
    <label class="labelled panel-note">
      One machine takes
      <input
        class="field small capacity-field"
        type="number"
        min="0"
        step="any"
        placeholder="measure it"
        value={capacity.value || ''}
        onInput={(event) => {
          const entered = event.currentTarget.valueAsNumber
          capacity.value = Number.isFinite(entered) ? Math.max(0, entered) : 0
        }}
      />
      records per second, as measured below
    </label>
  )
}

function Row({ plan }: { plan: Plan }) {
  return (
    <tr>
      <th scope="row">{plan.name}</th>
      <td class="number">{rate(plan.rate)}</td>
      <td class="number">{plan.machines ?? '–'}</td>
      <td class="number">{plan.cost === undefined ? '–' : `×${plan.cost.toFixed(2)}`}</td>
    </tr>
  )
}
