// Actions for a value, wherever it is shown: in a facet, a cell, or the drawer.
import { quoteKey, quoteValue } from '../query/quote'
import { parseTerms, stateOf, withOnly, withoutField, withValue } from '../query/terms'
import { go } from '../state/location'
import { type MenuGroup, type MenuItem, openMenu } from '../ui/menu'
import { copy } from '../ui/notify'
import { columns, toggleColumn } from './columns'
import { query } from './question'
import { textOf } from './record'

export function setQueryNow(next: string): void {
  go({ q: next })
}

export function include(field: string, value: unknown): void {
  const included = stateOf(parseTerms(query.peek()), field, value) === 'included'
  setQueryNow(withValue(query.peek(), field, value, included ? undefined : 'included'))
}

export function exclude(field: string, value: unknown): void {
  const excluded = stateOf(parseTerms(query.peek()), field, value) === 'excluded'
  setQueryNow(withValue(query.peek(), field, value, excluded ? undefined : 'excluded'))
}

export function openValueMenu(anchor: HTMLElement, field: string, value: unknown): void {
  const text = textOf(value)
  const title = `${field}: ${text.length > 60 ? `${text.slice(0, 60)}…` : text}`
  openMenu(anchor, title, [
    { title, items: filterItems(field, value) },
    fieldGroup(field),
    copyGroup(field, value),
  ])
}

function filterItems(field: string, value: unknown): MenuItem[] {
  if (value === undefined || typeof value === 'object') return []
  const state = stateOf(parseTerms(query.peek()), field, value)
  return [
    {
      label: state === 'included' ? 'Remove from the query' : 'Show only this value',
      icon: 'include',
      hint: 'f',
      run: () =>
        state === 'included'
          ? include(field, value)
          : setQueryNow(withOnly(query.peek(), field, value)),
    },
    {
      label: state === 'excluded' ? 'Show this value again' : 'Hide this value',
      icon: 'exclude',
      hint: 'F',
      run: () => exclude(field, value),
    },
  ]
}

function fieldGroup(field: string): MenuGroup {
  if (field === 'message' || field === 'timestamp') return { items: [] }
  const shown = columns.peek().includes(field)
  return {
    items: [
      {
        label: shown ? 'Remove the column' : 'Show as a column',
        icon: 'columns',
        run: () => toggleColumn(field),
      },
      {
        label: 'Group by this field',
        icon: 'chart',
        run: () => go({ view: 'groups', group: field }),
      },
      {
        label: 'Only records with this field',
        icon: 'filter',
        run: () => setQueryNow(`${query.peek()} ${quoteKey(field)}:*`.trim()),
      },
      {
        label: 'Only records without this field',
        icon: 'exclude',
        run: () => setQueryNow(`${withoutField(query.peek(), field)} -${quoteKey(field)}:*`.trim()),
      },
    ],
  }
}

function copyGroup(field: string, value: unknown): MenuGroup {
  const text = textOf(value)
  const items: MenuItem[] = [
    { label: 'Copy the value', icon: 'copy', run: () => copy(text, 'the value') },
  ]
  if (typeof value !== 'object') {
    const term = `${quoteKey(field)}:${quoteValue(value)}`
    items.push({ label: 'Copy as a term', icon: 'copy', run: () => copy(term, 'the term') })
  }
  return { items }
}
