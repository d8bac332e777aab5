// A box whose content scrolls if it is too wide, also with the keyboard.
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
