// The width of an element, updated when it is resized.
import type { RefObject } from 'preact'
import { useLayoutEffect, useState } from 'preact/hooks'

export function useWidth(element: RefObject<HTMLElement | null>, atFirst: number): number {
  const [width, setWidth] = useState(atFirst)
  useLayoutEffect(() => {
    const found = element.current
    if (!found) return
    setWidth(found.clientWidth)
    const resized = new ResizeObserver(() => setWidth(found.clientWidth))
    resized.observe(found)
    return () => resized.disconnect()
  }, [element])
  return width
}
