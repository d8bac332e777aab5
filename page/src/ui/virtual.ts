// Only the rows that can be seen are in the document, however many there are.
import {
  elementScroll,
  observeElementOffset,
  observeElementRect,
  Virtualizer,
  type VirtualizerOptions,
} from '@tanstack/virtual-core'
import type { Ref, RefObject } from 'preact'
import { useLayoutEffect, useReducer, useRef } from 'preact/hooks'

export type Rows = Virtualizer<HTMLDivElement, HTMLDivElement>

interface VirtualProps {
  count: number
  rowHeight: number
  /** Rows have heights of their own, which are measured. */
  measured: boolean
  scroller: RefObject<HTMLDivElement | null>
  keyOf?: (index: number) => string | number
}

export function useVirtual({ count, rowHeight, measured, scroller, keyOf }: VirtualProps): Rows {
  const [, draw] = useReducer((turn: number) => turn + 1, 0)
  const instance = useRef<Rows | undefined>(undefined)
  const options: VirtualizerOptions<HTMLDivElement, HTMLDivElement> = {
    count,
    getScrollElement: () => scroller.current,
    estimateSize: () => rowHeight,
    overscan: 8,
    observeElementRect,
    observeElementOffset,
    scrollToFn: elementScroll,
    onChange: () => draw(undefined),
    ...(keyOf ? { getItemKey: keyOf } : {}),
  }
  instance.current ??= new Virtualizer(options)
  const rows = instance.current
  rows.setOptions(options)
  useLayoutEffect(() => rows._didMount(), [rows])
  useLayoutEffect(() => rows._willUpdate())
  useLayoutEffect(() => rows.measure(), [rowHeight, measured])
  return rows
}

/** Measures a row once it is there. */
export function measureIn(rows: Rows, measured: boolean): Ref<HTMLDivElement> | undefined {
  return measured ? (element) => rows.measureElement(element) : undefined
}
