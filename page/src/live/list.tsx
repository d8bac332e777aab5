// The rows of a live tail, the newest at the bottom. The list follows only while it is scrolled to
// its end; scrolling up or selecting text pauses it, and new rows wait.
import { useEffect, useLayoutEffect, useRef } from 'preact/hooks'
import { NothingYet, nothingTaken } from '../explore/nothing-yet'
import { lineOf } from '../explore/record'
import { rowHeights } from '../explore/record-table'
import { wordsExpression } from '../format/log-text'
import { markedWords } from '../query/terms'
import { parameter } from '../state/location'
import { density, wrap } from '../state/settings'
import { copyRows } from '../ui/copy-rows'
import { Icon } from '../ui/icon'
import { Empty } from '../ui/states'
import { measureIn, useVirtual } from '../ui/virtual'
import { GapRow, LiveRow } from './list-row'
import { readRow } from './row'
import { follow, following, paints, pause, ring, tailState } from './tail'

const query = parameter('q')

/** A list this close to its end counts as at its end, pixels. */
const bottomSlack = 24
/** Browsers round positions to whole pixels. */
const rounding = 1

export function LiveList({ words }: { words: string }) {
  const scroller = useRef<HTMLDivElement>(null)
  const drawn = paints.value
  const entries = ring.shown
  const wrapped = wrap.value
  const follows = following.value
  const virtual = useVirtual({
    count: entries.length,
    rowHeight: rowHeights[density.value],
    measured: wrapped,
    scroller,
    keyOf: (index) => entries[index]?.key ?? index,
  })

  /** The last scroll position; while the list follows, that of its end. */
  const lastTop = useRef(0)
  useLayoutEffect(() => {
    const element = scroller.current
    if (!follows || !element) return
    element.scrollTop = element.scrollHeight
    lastTop.current = element.scrollTop
  }, [drawn, follows, virtual.getTotalSize()])
  usePauseOnSelection(scroller)

  const marks = wordsExpression([...markedWords(query.value), ...words.split(/\s+/)])
  const items = virtual.getVirtualItems()
  return (
    <div class="live-list">
      <div
        ref={scroller}
        class={`records live-rows ${density.value}${wrapped ? ' wrapped' : ''}`}
        role="log"
        aria-label="Live records"
        aria-live="off"
        tabIndex={0}
        onScroll={(event) => {
          scrolled(event.currentTarget, lastTop.current)
          if (!following.peek()) lastTop.current = event.currentTarget.scrollTop
        }}
        onWheel={(event) => event.deltaY < 0 && pause()}
        onKeyDown={(event) => /^(ArrowUp|PageUp|Home)$/.test(event.key) && pause()}
        onCopy={(event) => copyRows(event, lineAt)}
      >
        <div class="record-space" style={{ height: `${virtual.getTotalSize()}px` }}>
          {items.map((item) => {
            const entry = entries[item.index]
            if (!entry) return null
            const place = {
              top: item.start,
              index: item.index,
              rowRef: measureIn(virtual, wrapped),
            }
            return entry.kind === 'row' ? (
              <LiveRow key={entry.key} entry={entry} wrapped={wrapped} words={marks} {...place} />
            ) : (
              <GapRow key={entry.key} kind={entry.kind} text={entry.text} {...place} />
            )
          })}
        </div>
        {entries.length === 0 && <Waiting />}
      </div>
      {!follows && <CatchUp />}
    </div>
  )
}

/**
 * Moving up stops the list, by wheel, finger or scroll bar alike. Only moving down to the end resumes
 * it: a slow finger is still near the end when it has just left it.
 */
function scrolled(element: HTMLElement, lastTop: number): void {
  const { scrollTop } = element
  const below = element.scrollHeight - scrollTop - element.clientHeight
  if (following.peek()) {
    if (below > rounding && scrollTop < lastTop - rounding) pause()
  } else if (below < bottomSlack && scrollTop > lastTop && ring.waiting.length === 0) {
    following.value = true
  }
}

function lineAt(index: number): string | undefined {
  const entry = ring.shown[index]
  return entry?.kind === 'row' ? lineOf(readRow(entry.id, entry.data)) : entry?.text
}

function usePauseOnSelection(scroller: { current: HTMLElement | null }): void {
  useEffect(() => {
    function changed() {
      const selection = document.getSelection()
      if (!selection || selection.isCollapsed) return
      if (scroller.current?.contains(selection.anchorNode)) pause()
    }
    document.addEventListener('selectionchange', changed)
    return () => document.removeEventListener('selectionchange', changed)
  }, [scroller])
}

function CatchUp() {
  const waiting = ring.waiting.length + ring.pushedOut
  return (
    <button type="button" class="button primary catch-up" onClick={follow}>
      <Icon name="down" />
      {waiting > 0 ? `${waiting.toLocaleString('en')} new` : 'Follow'}
    </button>
  )
}

function Waiting() {
  if (tailState.value !== 'open') return null
  if (nothingTaken.value && !query.value) return <NothingYet />
  return (
    <Empty title={query.value ? 'No matching records yet' : 'No records yet'}>
      <p>The tail shows new records only; find older ones in Explore.</p>
    </Empty>
  )
}
