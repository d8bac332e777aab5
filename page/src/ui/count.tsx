// A cell with a number: short, exact when pointed at, and pale if there is nothing.
import { exact, short } from '../format/numbers'

export function Count({ value }: { value: number }) {
  return (
    <td class={`number${value === 0 ? ' quiet' : ''}`} title={exact(value)}>
      {short(value)}
    </td>
  )
}
