// A record as highlighted JSON, as the API returns it.
import { type Signal, useSignal } from '@preact/signals'
import { jsonOf } from '../api/exact'
import type { LogEntry } from '../api/schema'
import { Button } from '../ui/button'
import { LogText } from '../ui/log-text'
import { copy } from '../ui/notify'
import { isObject } from './record'

const textShown = 4_000

export function JsonTab({ record }: { record: LogEntry }) {
  return (
    <>
      <div class="drawer-actions">
        <Button small icon="copy" onClick={() => copy(jsonOf(record, 2), 'the record as JSON')}>
          Copy
        </Button>
      </div>
      <pre class="json">
        <Value value={{ id: record.id, ...record.attributes, weir: record.weir }} depth={0} />
      </pre>
    </>
  )
}

function Value({ value, depth }: { value: unknown; depth: number }) {
  if (Array.isArray(value))
    return <Items open="[" close="]" depth={depth} items={value.map((one) => ['', one])} />
  if (isObject(value))
    return <Items open="{" close="}" depth={depth} items={Object.entries(value)} />
  if (typeof value === 'string') {
    const text = JSON.stringify(value.slice(0, textShown))
    const rest = value.length - textShown
    return (
      <span class="json-text">
        <LogText text={text} />
        {rest > 0 && <span class="quiet"> … {rest.toLocaleString('en')} more characters</span>}
      </span>
    )
  }
  return <span class="json-plain">{jsonOf(value)}</span>
}

function Fold({ folded, count }: { folded: Signal<boolean>; count: number }) {
  return (
    <button
      type="button"
      class="json-fold"
      aria-expanded={!folded.value}
      aria-label={`${count} ${count === 1 ? 'member' : 'members'}`}
      onClick={() => {
        folded.value = !folded.value
      }}
    >
      {folded.value ? '▸' : '▾'}
    </button>
  )
}

interface ItemsProps {
  open: string
  close: string
  depth: number
  items: Array<[string, unknown]>
}

function Items({ open, close, depth, items }: ItemsProps) {
  const folded = useSignal(false)
  const inner = '  '.repeat(depth + 1)
  if (items.length === 0) return <>{open + close}</>
  const fold = depth > 0 && <Fold folded={folded} count={items.length} />
  if (folded.value) {
    return (
      <>
        {fold}
        {open}
        <span class="quiet"> {items.length} </span>
        {close}
      </>
    )
  }
  return (
    <>
      {fold}
      {`${open}\n`}
      {items.map(([key, value], index) => (
        <span key={index}>
          {inner}
          {key && (
            <>
              <span class="json-key">
                <LogText text={JSON.stringify(key)} />
              </span>
              {': '}
            </>
          )}
          <Value value={value} depth={depth + 1} />
          {index < items.length - 1 ? ',\n' : '\n'}
        </span>
      ))}
      {'  '.repeat(depth) + close}
    </>
  )
}
