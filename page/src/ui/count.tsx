// A table cell with a number: short, exact in its tooltip, and pale if it is zero.
import { exact, short } from '../format/numbers'

export function Count({ value }: { value: number }) {
  return (
    <td class={`number${value === 0 ? ' quiet' : ''}`} title={exact(value)}>
      {short(value)}
    </td>
  )
}
