// A table cell with discarded records by reason, marked as a loss or as configured.
import { exact, percent, short } from '../format/numbers'
import { lossOf } from './figures'

export function Discards({ counts, of }: { counts: Record<string, number>; of: number }) {
  const { reasons } = lossOf(counts)
  if (reasons.length === 0) return <td class="quiet">none</td>
  return (
    <td>
      {reasons.map((one) => (
        <span
          key={one.reason}
          class={`badge ${one.chosen ? '' : 'bad'}`}
          title={`${exact(one.count)} records, ${percent(one.count / Math.max(of, 1))}; ${one.chosen ? 'as configured' : 'a loss'}`}
        >
          {one.reason.replaceAll('_', ' ')} {short(one.count)}
        </span>
      ))}
    </td>
  )
}
