// Which row is selected, and which record is open. The open record is part of the address.
import { batch, computed, signal } from '@preact/signals'
import { useEffect } from 'preact/hooks'
import type { LogEntry } from '../api/schema'
import { exact } from '../format/numbers'
import { go, parameter } from '../state/location'
import { wrap } from '../state/settings'
import { useKeys } from '../ui/keys'
import { copy, notify } from '../ui/notify'
import { columns } from './columns'
import { fieldOf, lineOf } from './record'
import { loadMore, rows } from './records'
import { exclude, include } from './value-menu'

export const openId = parameter('row')
export const selected = signal(-1)
/** The ID of the selected record, which can be in another row of the next result. */
let selectedId = ''

const chosenField = signal('')

/** The selected field of the selected row; empty if there is none, or it is no longer a column. */
export const cursor = computed(() => {
  const shown = chosenField.value === 'status' || columns.value.includes(chosenField.value)
  return shown ? chosenField.value : ''
})

/** Whether the list is scrolled away from its beginning. */
export const scrolled = signal(false)

/** Whether the user is reading, so that nothing should move by itself. */
export const isReading = computed(() => scrolled.value || openId.value !== '')

/** Keeps the selected or open record selected when the rows change. */
export function reselect(found: LogEntry[]): void {
  const id = selectedId || openId.peek()
  if (id === '' || found[selected.peek()]?.id === id) return
  selected.value = found.findIndex((record) => record.id === id)
}

export function selectRow(index: number): void {
  const found = rows.peek()
  if (found.length === 0) return
  const kept = Math.max(0, Math.min(found.length - 1, index))
  if (index > found.length - 20) loadMore()
  batch(() => {
    selected.value = kept
    const id = found[kept]?.id
    selectedId = id ?? ''
    if (openId.peek() && id) go({ row: id }, { replace: true })
  })
}

export function openRow(index: number): void {
  const id = rows.peek()[index]?.id
  if (!id) return
  selected.value = index
  selectedId = id
  const replace = openId.peek() !== ''
  go({ row: openId.peek() === id ? null : id }, { replace })
}

export function closeRow(): void {
  go({ row: null, tab: null })
}

function enterRecord(): void {
  document.querySelector<HTMLElement>('.drawer [role=tab][aria-selected=true]')?.focus()
}

const errors = new Set(['emergency', 'alert', 'critical', 'error'])

/** Selects the next error below or above, among the records that are loaded. */
function selectError(by: 1 | -1): void {
  const found = rows.peek()
  const isError = (index: number) => errors.has(found[index]?.attributes.status ?? '')
  let index = selected.peek() < 0 && by < 0 ? found.length - 1 : selected.peek() + by
  while (found[index] && !isError(index)) index += by
  if (found[index]) selectRow(index)
  else
    notify(
      `No ${by > 0 ? 'further' : 'earlier'} error among the ${exact(found.length)} records loaded`,
    )
}

function atSelected(act: (index: number) => void): void {
  if (selected.peek() >= 0) act(selected.peek())
}

function filterBySelected(how: (field: string, value: unknown) => void): void {
  const record = rows.peek()[selected.peek()]
  if (!record) return
  const field = cursor.peek() || 'service'
  const value = fieldOf(record, field)
  if (value === undefined || value === '' || typeof value === 'object') {
    notify(`This record has no value of ${field} to filter by`)
  } else how(field, value)
}

/** The severity and the columns except for the message, which cannot be filtered by. */
function cursorFields(): string[] {
  return ['status', ...columns.peek().filter((name) => name !== 'message' && name !== 'status')]
}

function moveCursor(by: number): void {
  const fields = cursorFields()
  const at = fields.indexOf(cursor.peek())
  const next = at < 0 ? (by > 0 ? 1 : 0) : at + by
  chosenField.value = fields[Math.max(0, Math.min(fields.length - 1, next))] ?? ''
}

export function useRecordKeys(grid: () => HTMLDivElement | null): void {
  const page = () => Math.max(1, Math.floor((grid()?.clientHeight ?? 400) / 24) - 2)
  const group = 'Records' as const
  useKeys([
    { keys: 'j', does: 'next record', group, run: () => selectRow(selected.peek() + 1) },
    { keys: 'k', does: 'previous record', group, run: () => selectRow(selected.peek() - 1) },
    { keys: 'o', does: 'open or close the record', group, run: () => atSelected(openRow) },
    {
      keys: 'x',
      does: 'show its context',
      group,
      run: () => openTab('context'),
    },
    {
      keys: 't',
      does: 'show its trace',
      group,
      run: () => openTab('trace'),
    },
    {
      keys: 'f',
      does: 'show only its service, or the value chosen with ← →',
      group,
      run: () => filterBySelected(include),
    },
    {
      keys: 'F',
      does: 'hide its service, or that value',
      group,
      run: () => filterBySelected(exclude),
    },
    {
      keys: 'y',
      does: 'copy it as a line',
      group,
      run: () => atSelected((index) => copyLine(index)),
    },
    {
      keys: 'w',
      does: 'wrap long lines',
      group,
      run: () => {
        wrap.value = !wrap.peek()
      },
    },
    { keys: 'e', does: 'next error', group, run: () => selectError(1) },
    { keys: 'E', does: 'previous error', group, run: () => selectError(-1) },
    { keys: 'i', does: 'move the focus into the open record', group, run: enterRecord },
    {
      keys: 'Escape',
      does: 'close the record',
      group,
      run: () => {
        if (!openId.peek()) return
        closeRow()
        grid()?.focus({ preventScroll: true })
      },
    },
  ])

  useEffect(() => {
    const element = grid()
    if (!element) return
    const moved = (event: KeyboardEvent) => moveByKey(event, element, page())
    element.addEventListener('keydown', moved)
    return () => element.removeEventListener('keydown', moved)
  })
}

function moveByKey(event: KeyboardEvent, grid: HTMLElement, page: number): void {
  if (event.target !== grid || event.ctrlKey || event.metaKey || event.altKey) return
  const now = selected.peek()
  const targets: Record<string, number> = {
    ArrowDown: now + 1,
    ArrowUp: now - 1,
    PageDown: now + page,
    PageUp: now - page,
    Home: 0,
    End: rows.peek().length - 1,
  }
  const target = targets[event.key]
  if (target !== undefined) {
    event.preventDefault()
    selectRow(target)
  } else if (event.key === 'ArrowLeft' || event.key === 'ArrowRight') {
    event.preventDefault()
    moveCursor(event.key === 'ArrowLeft' ? -1 : 1)
  } else if (event.key === 'Enter') {
    event.preventDefault()
    atSelected(openRow)
  }
}

/** Opens a tab of the selected record, or of the open one if it is no longer among the rows. */
export function openTab(tab: string): void {
  const id = rows.peek()[selected.peek()]?.id ?? openId.peek()
  if (id) go({ row: id, tab })
}

function copyLine(index: number): void {
  const record = rows.peek()[index]
  if (record) copy(lineOf(record), 'the record as a line')
}
