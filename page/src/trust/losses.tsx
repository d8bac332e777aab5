// When records were lost: the minutes and hours with losses, with links to what was stored at the time.
import type { StepEntry } from '../api/schema'
import { exact, percent } from '../format/numbers'
import { brief } from '../format/times'
import { link } from '../state/location'
import { ScrollBox } from '../ui/scroll-box'
import { lossySteps } from './recorded'

const listed = 10

export function Losses({ steps }: { steps: StepEntry[] }) {
  const lossy = lossySteps(steps)
  if (lossy.length === 0) return <p class="panel-note quiet">Nothing was lost in this window.</p>
  return (
    <>
      <ScrollBox className="ledger" label="Table of losses">
        <table>
          <thead>
            <tr>
              <th scope="col">last losses</th>
              <th scope="col" class="number">
                lost
              </th>
              <th scope="col" class="number">
                loss
              </th>
            </tr>
          </thead>
          <tbody>
            {lossy.slice(0, listed).map((step) => (
              <Row key={step.from} step={step} />
            ))}
          </tbody>
        </table>
      </ScrollBox>
      {lossy.length > listed && (
        <p class="panel-note quiet">
          {exact(lossy.length - listed)} earlier intervals with losses.
        </p>
      )}
    </>
  )
}

function Row({ step: { from, to, lost, delivered } }: { step: StepEntry }) {
  return (
    <tr>
      <th scope="row">
        <a href={link({ from, to }, 'explore')} title="Records of this time">
          {brief(Date.parse(from))} – {brief(Date.parse(to))}
        </a>
      </th>
      <td class="number loss">{exact(lost)}</td>
      <td class="number loss">{percent(lost / Math.max(1, delivered + lost))}</td>
    </tr>
  )
}
