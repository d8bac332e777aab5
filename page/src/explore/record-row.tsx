// A record as a row: severity, time, and the columns.

import type { Ref } from 'preact'
import type { LogEntry } from '../api/schema'
import { oneLine } from '../format/log-text'
import { measured } from '../format/numbers'
import { letterOf, statusOf, toneOf } from '../format/status'
import { day, full } from '../format/times'
import { Clock } from '../ui/clock'
import { LogText } from '../ui/log-text'
import { memo } from '../ui/memo'
import { unitOf } from './facets'
import { fieldOf, textOf, timeOf } from './record'
import { openRowMenu } from './row-menu'
import { openValueMenu } from './value-menu'

/** How many characters of a value a row shows; the drawer shows all. */
const shownInLine = 600
const shownWrapped = 6_000

interface RowProps {
  rowRef: Ref<HTMLDivElement> | undefined
  record: LogEntry
  index: number
  top: number
  wrapped: boolean
  words: RegExp | undefined
  columns: string[]
  selected: boolean
  /** The selected field, if any. */
  cursor: string
  onOpen: (index: number) => void
}

export const RecordRow = memo(function RecordRow(props: RowProps) {
  const { rowRef, record, index, top, selected } = props
  const status = statusOf(record.attributes.status)
  const time = timeOf(record)
  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: the grid has the keys of all its rows
    <div
      {...(rowRef ? { ref: rowRef } : {})}
      id={`record-${index}`}
      data-index={index}
      class={`record tone-${toneOf(status)}${selected ? ' selected' : ''}`}
      role="row"
      aria-rowindex={index + 2}
      aria-selected={selected}
      style={{ top: `${top}px` }}
      onClick={() => (hasSelection() ? undefined : props.onOpen(index))}
      onContextMenu={(event) => rowMenu(event, index)}
    >
      <span
        {...cursorOf(props, 'status')}
        class={`cell level${props.cursor === 'status' ? ' cursor' : ''}`}
        role="gridcell"
        title={status}
        aria-label={status}
      >
        {letterOf(status)}
      </span>
      <span class="cell time" role="gridcell" title={full(time)}>
        <span class="day">{day(time)} </span>
        <Clock time={time} />
      </span>
      {props.columns.map((name) => (
        <Cell key={name} name={name} {...props} />
      ))}
    </div>
  )
})

/** The ID of the selected cell, so that the grid can name it as its active descendant. */
function cursorOf({ cursor, index }: RowProps, name: string): { id?: string } {
  return cursor === name ? { id: cellId(index) } : {}
}

export function cellId(index: number): string {
  return `record-${index}-cell`
}

function Cell({ name, ...props }: RowProps & { name: string }) {
  const { record, wrapped, words, cursor } = props
  const meant = cursor === name ? ' cursor' : ''
  const value = fieldOf(record, name)
  const unit = unitOf(name)
  if (typeof value === 'number' && unit) {
    return (
      <span
        {...cursorOf(props, name)}
        class={`cell number${meant}`}
        role="gridcell"
        title={`${value} ${unit}`}
        onContextMenu={(event) => cellMenu(event, name, value)}
      >
        {measured(value, unit)}
      </span>
    )
  }
  const text = textOf(value)
  const shown = wrapped ? text.slice(0, shownWrapped) : oneLine(text, shownInLine)
  const marks = name === 'message' ? words : undefined
  return (
    <span
      {...cursorOf(props, name)}
      class={`cell${name === 'message' ? ' message' : ''}${meant}`}
      role="gridcell"
      onContextMenu={(event) => cellMenu(event, name, value)}
    >
      <LogText text={shown} words={marks} />
      {text.length > shown.length && wrapped && (
        <span class="quiet"> … {text.length - shown.length} more</span>
      )}
    </span>
  )
}

/** Opens the menu of a value; with Shift, or on selected text, the browser opens its own. */
function cellMenu(event: MouseEvent, name: string, value: unknown): void {
  if (event.shiftKey || hasSelection() || value === undefined || name === 'message') return
  event.preventDefault()
  openValueMenu(event.currentTarget as HTMLElement, name, value)
}

/** Opens the menu of the record, unless a cell has opened that of its value. */
function rowMenu(event: MouseEvent, index: number): void {
  if (event.defaultPrevented || event.shiftKey || hasSelection()) return
  event.preventDefault()
  const cell = event.target instanceof Element ? event.target.closest<HTMLElement>('.cell') : null
  openRowMenu(cell ?? (event.currentTarget as HTMLElement), index)
}

/** A click that ends a text selection must not open the row. */
function hasSelection(): boolean {
  return (window.getSelection()?.toString().length ?? 0) > 0
}
