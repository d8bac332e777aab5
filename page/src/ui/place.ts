// Places a floating element below its anchor, or above it if there is no room.

const margin = 8

export function placeBeside(floating: HTMLElement, anchor: DOMRect, align: 'start' | 'end'): void {
  const { width, height } = floating.getBoundingClientRect()
  const left = align === 'start' ? anchor.left : anchor.right - width
  const below = anchor.bottom + 4
  const fits = below + height <= window.innerHeight - margin
  const top = fits ? below : Math.max(margin, anchor.top - height - 4)
  floating.style.left = `${clamp(left, margin, window.innerWidth - width - margin)}px`
  floating.style.top = `${clamp(top, margin, Math.max(margin, window.innerHeight - height - margin))}px`
}

function clamp(value: number, low: number, high: number): number {
  return Math.max(low, Math.min(value, Math.max(low, high)))
}
