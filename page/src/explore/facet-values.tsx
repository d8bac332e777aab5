// The values of a facet: counts, include and exclude, all values on demand, and a range for
// numbers.
import { useSignal } from '@preact/signals'
import { useEffect } from 'preact/hooks'
import { get } from '../api/client'
import type { FacetEntry, ValueEntry } from '../api/schema'
import { plainText } from '../format/log-text'
import { exact, measured, short } from '../format/numbers'
import { statusOf, toneOf } from '../format/status'
import { quoteKey } from '../query/quote'
import { parseTerms, stateOf, withoutField, withRange } from '../query/terms'
import { createResource } from '../state/resource'
import { LogText } from '../ui/log-text'
import { notify } from '../ui/notify'
import { Skeleton } from '../ui/states'
import { loadFacet } from './facets'
import { addressOf, query, question } from './question'
import { valueText } from './record'
import { exclude, include, setQueryNow } from './value-menu'

const shownAtFirst = 6

export function FacetValues({ facet }: { facet: FacetEntry }) {
  const all = useSignal(false)
  const measure = facet.type === 'number' && (facet.distinct ?? Number.POSITIVE_INFINITY) > 20
  const values = facet.values.slice(0, shownAtFirst)
  const more = (facet.distinct ?? values.length + 1) > values.length
  return (
    <div class="facet-body">
      {facet.type === 'number' && facet.min != null && facet.max != null && (
        <NumberRange facet={facet} />
      )}
      {all.value ? (
        <AllValues facet={facet} />
      ) : (
        !measure && <ValueList facet={facet} values={values} />
      )}
      {!measure && values.length === 0 && (
        <p class="quiet">Nearly every record has a different value.</p>
      )}
      {more && !all.value && (
        <button
          type="button"
          class="link facet-more"
          onClick={() => {
            all.value = true
          }}
        >
          {facet.distinct ? `all ${exact(facet.distinct)} values` : 'find a value'}
        </button>
      )}
    </div>
  )
}

/** A field that was not counted with the others, and is counted once it is opened. */
export function CountedFacet({ name }: { name: string }) {
  const found = useSignal(createResource<FacetEntry | undefined>()).value
  const asked = question.value
  useEffect(() => {
    found.ask((signal) => loadFacet(asked, name, signal))
  }, [asked, name, found])
  if (found.data.value) return <FacetValues facet={found.data.value} />
  if (found.loading.value)
    return <Skeleton lines={3} label={`Counting values of ${plainText(name)}`} />
  return <p class="facets-note quiet">No matching record has it.</p>
}

function ValueList({ facet, values }: { facet: FacetEntry; values: ValueEntry[] }) {
  const most = Math.max(1, ...values.map((entry) => entry.count))
  const terms = parseTerms(query.value)
  return (
    <ul class="values">
      {values.map((entry) => (
        <Value
          key={String(entry.value)}
          facet={facet}
          entry={entry}
          share={entry.count / most}
          state={stateOf(terms, facet.name, entry.value)}
        />
      ))}
    </ul>
  )
}

interface ValueProps {
  facet: FacetEntry
  entry: ValueEntry
  share: number
  state: 'included' | 'excluded' | undefined
}

function Value({ facet, entry, share, state }: ValueProps) {
  const text = valueText(entry.value)
  const name = text === '' ? '(empty)' : text
  const isMeasured = facet.type === 'number' && facet.unit
  const shown = isMeasured ? measured(Number(entry.value), facet.unit) : name
  const unit = isMeasured ? ` ${facet.unit}` : ''
  return (
    <li class={`value ${state ?? ''}`}>
      <button
        type="button"
        class="value-name"
        aria-pressed={state === 'included'}
        title={`${plainText(name)}${unit}: ${exact(entry.count)} records`}
        onClick={() => include(facet.name, entry.value)}
      >
        <span class="value-share" style={{ width: `${Math.max(2, share * 100)}%` }} />
        {facet.name === 'status' && (
          <span class="swatch" style={{ background: `var(--tone-${toneOf(statusOf(name))})` }} />
        )}
        <span class="value-text">
          <LogText text={shown} />
        </span>
        <span class="value-count">{short(entry.count)}</span>
      </button>
      <button
        type="button"
        class="value-exclude"
        aria-pressed={state === 'excluded'}
        aria-label={`Hide ${plainText(name)}`}
        title={`Hide ${plainText(name)}`}
        onClick={() => exclude(facet.name, entry.value)}
      >
        −
      </button>
    </li>
  )
}

function AllValues({ facet }: { facet: FacetEntry }) {
  const prefix = useSignal('')
  const found = useSignal(createResource<ValueEntry[]>()).value
  const asked = question.value
  useEffect(() => {
    const others = { ...addressOf(asked), query: withoutField(asked.query, facet.name) }
    const parameters = { ...others, field: quoteKey(facet.name), prefix: prefix.value, limit: 100 }
    const timer = window.setTimeout(
      () => found.ask(async (signal) => (await get('/weir/v1/values', parameters, signal)).values),
      prefix.value ? 150 : 0,
    )
    return () => window.clearTimeout(timer)
  }, [asked, prefix.value, facet.name, found])
  return (
    <>
      <input
        class="field small value-search"
        placeholder="Values that begin with…"
        aria-label={`Values of ${plainText(facet.name)} with the prefix`}
        onInput={(event) => {
          prefix.value = event.currentTarget.value
        }}
      />
      <div class="value-scroll">
        <ValueList facet={facet} values={found.data.value ?? facet.values} />
        {found.data.value?.length === 0 && <p class="quiet">No value with this prefix.</p>}
      </div>
    </>
  )
}

function NumberRange({ facet }: { facet: FacetEntry }) {
  const unit = facet.unit
  const least = measured(facet.min ?? 0, unit)
  const greatest = measured(facet.max ?? 0, unit)
  return (
    <form
      class="facet-range"
      onSubmit={(event) => {
        event.preventDefault()
        const fields = event.currentTarget.elements
        const text = (name: string) =>
          (fields.namedItem(name) as HTMLInputElement).value.replace(/\s+/g, '')
        const [low, high] = [text('low'), text('high')]
        const wrong = [low, high].some((one) => one && !/^-?[\d.]+(e-?\d+)?[a-zµ]*$/i.test(one))
        if (wrong) notify('Enter a number, optionally with a unit: 250ms, 4KiB')
        else setQueryNow(withRange(query.peek(), facet.name, low, high))
      }}
    >
      <input
        class="field small"
        name="low"
        placeholder={least}
        aria-label={`${plainText(facet.name)} at least`}
      />
      <span class="quiet">to</span>
      <input
        class="field small"
        name="high"
        placeholder={greatest}
        aria-label={`${plainText(facet.name)} at most`}
      />
      <button type="submit" class="button small">
        Set
      </button>
    </form>
  )
}
