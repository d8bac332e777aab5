// Virtual rows: only those that are visible are in the document, however many there are.
import {
  elementScroll,
  observeElementOffset,
  observeElementRect,
  Virtualizer,
  type VirtualizerOptions,
} from '@tanstack/virtual-core'
import type { Ref, RefObject } from 'preact'
import { useLayoutEffect, useMemo, useReducer, useRef } from 'preact/hooks'

export type Rows = Virtualizer<HTMLDivElement, HTMLDivElement>

interface VirtualProps {
  count: number
  rowHeight: number
  /** Rows have heights of their own, which are measured. */
  measured: boolean
  scroller: RefObject<HTMLDivElement | null>
  keyOf: (index: number) => string | number
}

export function useVirtual(props: VirtualProps): Rows {
  const { count, rowHeight, measured, scroller } = props
  const [, draw] = useReducer((turn: number) => turn + 1, 0)
  const instance = useRef<Rows | undefined>(undefined)
  const latest = useRef(props)
  latest.current = props
  // Stable functions: a new one would make the virtualizer recompute all positions.
  const fixed = useMemo(
    () => ({
      getScrollElement: () => scroller.current,
      estimateSize: () => latest.current.rowHeight,
      getItemKey: (index: number) => latest.current.keyOf(index),
      onChange: () => draw(undefined),
      overscan: 8,
      observeElementRect,
      observeElementOffset,
      scrollToFn: elementScroll,
    }),
    [scroller],
  )
  const options: VirtualizerOptions<HTMLDivElement, HTMLDivElement> = { ...fixed, count }
  instance.current ??= new Virtualizer(options)
  const rows = instance.current
  rows.setOptions(options)
  useLayoutEffect(() => rows._didMount(), [rows])
  useLayoutEffect(() => rows._willUpdate())
  // Measurements are invalid when these change.
  useLayoutEffect(() => rows.measure(), [rowHeight, measured])
  return rows
}

/** Measures a row once it is in the document. */
export function measureIn(rows: Rows, measured: boolean): Ref<HTMLDivElement> | undefined {
  return measured ? (element) => rows.measureElement(element) : undefined
}
