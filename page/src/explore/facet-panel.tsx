// The facets: fields of the matching records, each with its most frequent values. Clicking a value
// filters by it, clicking it again removes the filter; every value can also be excluded.
import { useSignal } from '@preact/signals'
import type { FacetEntry } from '../api/schema'
import { plainText } from '../format/log-text'
import { exact, percent, short } from '../format/numbers'
import { go } from '../state/location'
import { IconButton } from '../ui/button'
import { Icon } from '../ui/icon'
import { LogText } from '../ui/log-text'
import { openMenu } from '../ui/menu'
import { Partial, Skeleton } from '../ui/states'
import { columns, toggleColumn } from './columns'
import { CountedFacet, FacetValues } from './facet-values'
import { facets, facetsByGroup, isOpen, toggle } from './facets'

export function FacetPanel() {
  const search = useSignal('')
  const answer = facets.data.value
  return (
    <nav class="facets" aria-label="Fields" aria-busy={facets.loading.value}>
      <div class="facets-search">
        <input
          class="field small"
          type="search"
          placeholder="Find a field"
          aria-label="Find a field"
          value={search.value}
          onInput={(event) => {
            search.value = event.currentTarget.value
          }}
        />
      </div>
      {answer?.meta.weir.partial && (
        <p class="facets-note">
          <Partial meta={answer.meta} />
        </p>
      )}
      {answer ? <Groups entries={answer.facets} search={search.value} /> : <Waiting />}
      {answer && answer.left_out > 0 && (
        <p class="facets-note quiet">
          {answer.left_out} more fields; the query bar completes their names.
        </p>
      )}
    </nav>
  )
}

function Waiting() {
  if (facets.problem.value)
    return <p class="facets-note quiet">Fields are shown with the next result.</p>
  return <Skeleton lines={12} label="Counting the values of fields" />
}

function Groups({ entries, search }: { entries: FacetEntry[]; search: string }) {
  const wanted = search.toLowerCase()
  const matched = facets.data.value?.meta.weir.matched ?? 0
  const groups = facetsByGroup(entries.filter((facet) => facet.name.toLowerCase().includes(wanted)))
  const some = groups.some(([, list]) => list.length > 0)
  if (!some)
    return (
      <p class="facets-note quiet">
        {search ? 'No field with this name.' : 'No fields: no records match.'}
      </p>
    )
  return (
    <div class={facets.loading.value ? 'stale' : ''}>
      {groups.map(([group, list]) =>
        list.length === 0 ? null : (
          <section key={group}>
            <h2 class="facets-group">{group}</h2>
            {list.map((facet) => (
              <Facet key={facet.name} facet={facet} matched={matched} />
            ))}
          </section>
        ),
      )}
    </div>
  )
}

function Facet({ facet, matched }: { facet: FacetEntry; matched: number }) {
  const open = isOpen(facet.name)
  const share = matched > 0 ? Math.min(1, facet.count / matched) : 0
  const known = facet.count > 0
  const title = known
    ? `${exact(facet.count)} records have it, ${percent(share)}`
    : plainText(facet.name)
  return (
    <div class="facet">
      <div class="facet-head">
        <button
          type="button"
          class="facet-name"
          aria-expanded={open}
          title={title}
          onClick={() => toggle(facet.name)}
        >
          <Icon name={open ? 'chevronDown' : 'chevronRight'} />
          <span class="grow">
            <LogText text={facet.name} />
          </span>
          <small>{known ? facetNote(facet, share) : ''}</small>
        </button>
        <IconButton
          small
          icon="more"
          label={`Actions for ${facet.name}`}
          onClick={(event) => openFacetMenu(event.currentTarget as HTMLElement, facet)}
        />
      </div>
      {open && (known ? <FacetValues facet={facet} /> : <CountedFacet name={facet.name} />)}
    </div>
  )
}

function facetNote(facet: FacetEntry, share: number): string {
  if (share < 0.995) return percent(share)
  return facet.distinct ? short(facet.distinct) : ''
}

function openFacetMenu(anchor: HTMLElement, facet: FacetEntry): void {
  const shown = columns.peek().includes(facet.name)
  const measure = facet.type === 'number'
  openMenu(anchor, facet.name, [
    {
      title: facet.name,
      items: [
        {
          label: shown ? 'Remove the column' : 'Show as a column',
          icon: 'columns',
          run: () => toggleColumn(facet.name),
        },
        {
          label: 'Group by this field',
          icon: 'chart',
          run: () => go({ view: 'groups', group: facet.name }),
        },
        ...(measure
          ? [
              {
                label: 'Distribution over time',
                icon: 'clock' as const,
                run: () => go({ view: 'latency', metric: facet.name }),
              },
            ]
          : []),
      ],
    },
  ])
}
