// The records as a grid of virtual rows: a hundred thousand of them scroll like ten. The grid has
// the focus and the selected row is its active descendant, so that rows can be added and removed.
import { computed, useSignalEffect } from '@preact/signals'
import type { Ref, RefObject } from 'preact'
import { useEffect, useRef } from 'preact/hooks'
import { wordsExpression } from '../format/log-text'
import { exact } from '../format/numbers'
import { markedWords } from '../query/terms'
import { density, wrap } from '../state/settings'
import { copyRows } from '../ui/copy-rows'
import { useKeys } from '../ui/keys'
import { memo } from '../ui/memo'
import { Skeleton } from '../ui/states'
import { measureIn, type Rows, useVirtual } from '../ui/virtual'
import { columns, template } from './columns'
import { query, question } from './question'
import { lineOf } from './record'
import { HeaderRow } from './record-header'
import { cellId, RecordRow } from './record-row'
import { allLoaded, loadMore, moreLoading, rows, rowsLoading, rowsMax, sort } from './records'
import { openRowMenu } from './row-menu'
import { cursor, openRow, reselect, scrolled, selected, useRecordKeys } from './selection'

/** Pixels. Targets must have at least 24 (WCAG 2.2, target size). */
export const rowHeights = { compact: 24, comfortable: 30 } as const

const words = computed(() => wordsExpression(markedWords(query.value)))

/** Rendered only when their content changes, not while scrolling. */
const Head = memo(HeaderRow)
const End = memo(Tail)

export function RecordTable() {
  const scroller = useRef<HTMLDivElement>(null)
  const found = rows.value
  const wrapped = wrap.value
  const virtual = useVirtual({
    count: found.length,
    rowHeight: rowHeights[density.value],
    measured: wrapped,
    scroller,
    keyOf: (index) => found[index]?.id ?? index,
  })
  const active = cursor.value ? cellId(selected.value) : `record-${selected.value}`
  const items = virtual.getVirtualItems()
  const last = items.at(-1)?.index ?? 0

  useEffect(() => {
    if (found.length > 0 && last >= found.length - 100) loadMore()
  }, [last, found.length])

  usePlace(scroller, virtual)
  useRecordKeys(() => scroller.current)
  useKeys([
    {
      keys: '.',
      does: 'show its menu',
      group: 'Records',
      run: () => menuOfSelected(scroller.current),
    },
  ])

  return (
    <div
      ref={scroller}
      class={looksOf(wrapped)}
      role="grid"
      aria-label="Records"
      aria-rowcount={allLoaded.value ? found.length + 1 : -1}
      aria-colcount={columns.value.length + 2}
      aria-busy={rowsLoading.value}
      aria-activedescendant={found[selected.value] ? active : undefined}
      tabIndex={0}
      style={{ '--columns': template.value }}
      onScroll={(event) => {
        scrolled.value = event.currentTarget.scrollTop > 0
      }}
      onContextMenu={(event) => {
        // From the keyboard; a mouse points at a row.
        if (event.target !== scroller.current || !menuOfSelected(scroller.current)) return
        event.preventDefault()
      }}
      onCopy={(event) => copyRows(event, lineAt)}
    >
      <Head />
      <div class="record-space" role="rowgroup" style={{ height: `${virtual.getTotalSize()}px` }}>
        <VisibleRows items={items} rowRef={measureIn(virtual, wrapped)} wrapped={wrapped} />
      </div>
      <End />
    </div>
  )
}

interface VisibleRowsProps {
  items: ReturnType<Rows['getVirtualItems']>
  rowRef: Ref<HTMLDivElement> | undefined
  wrapped: boolean
}

function VisibleRows({ items, rowRef, wrapped }: VisibleRowsProps) {
  return (
    <>
      {items.map((item) => {
        const record = rows.value[item.index]
        if (!record) return null
        return (
          <RecordRow
            key={item.key}
            rowRef={rowRef}
            record={record}
            index={item.index}
            top={item.start}
            wrapped={wrapped}
            words={words.value}
            columns={columns.value}
            selected={item.index === selected.value}
            cursor={item.index === selected.value ? cursor.value : ''}
            onOpen={openRow}
          />
        )
      })}
    </>
  )
}

function lineAt(index: number): string | undefined {
  const record = rows.peek()[index]
  return record && lineOf(record)
}

/** Opens the menu of the selected row; false if it is not on the screen. */
function menuOfSelected(grid: HTMLElement | null): boolean {
  const row = grid?.querySelector<HTMLElement>('[role=row][aria-selected=true]')
  if (row) openRowMenu(row, selected.peek())
  return row !== null && row !== undefined
}

function looksOf(wrapped: boolean): string {
  const looks = [
    'records',
    density.value,
    wrapped && 'wrapped',
    rowsLoading.value && 'stale',
    !columns.value.includes('message') && 'without-message',
  ]
  return looks.filter(Boolean).join(' ')
}

/** Scrolls to the first rows of a new result, and to the selected row. */
function usePlace(scroller: RefObject<HTMLDivElement | null>, virtual: Rows): void {
  useSignalEffect(() => {
    question.value
    sort.value
    scroller.current?.scrollTo({ top: 0 })
  })
  useSignalEffect(() => reselect(rows.value))
  useEffect(
    () => () => {
      scrolled.value = false
    },
    [],
  )
  useSignalEffect(() => {
    if (selected.value >= 0) virtual.scrollToIndex(selected.value, { align: 'auto' })
  })
  useEffect(() => {
    if (!cursor.value) return
    const cell = scroller.current?.querySelector('.cursor')
    cell?.scrollIntoView({ block: 'nearest', inline: 'nearest' })
  }, [cursor.value])
}

function Tail() {
  const count = rows.value.length
  if (moreLoading.value) return <Skeleton lines={2} label="Further records" />
  if (count >= rowsMax) {
    return (
      <p class="records-end">
        {exact(count)} records are shown, the maximum of a list. Zoom in, narrow the query, or
        export all.
      </p>
    )
  }
  return allLoaded.value && count > 0 ? (
    <p class="records-end">End of results: {exact(count)} records.</p>
  ) : null
}
