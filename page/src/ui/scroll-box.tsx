// What is wider than its place scrolls in a box of its own, which the keyboard reaches.
import type { ComponentChildren } from 'preact'

interface ScrollBoxProps {
  label: string
  className: string
  children: ComponentChildren
}

export function ScrollBox({ label, className, children }: ScrollBoxProps) {
  return (
    <section class={className} aria-label={label} tabIndex={0}>
      {children}
    </section>
  )
}
