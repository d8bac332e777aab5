// A button that opens a small panel, and closes it; so does the browser on Escape or a click
// elsewhere.
import type { ComponentChildren } from 'preact'
import { useId, useRef, useState } from 'preact/hooks'
import { Icon, type IconName } from './icon'
import { placeBeside } from './place'

interface PopoverProps {
  label: string
  icon?: IconName
  text?: ComponentChildren
  align?: 'start' | 'end'
  className?: string
  children: (close: () => void) => ComponentChildren
}

export function Popover(props: PopoverProps) {
  const { label, icon, text, align = 'end', className = '', children } = props
  const button = useRef<HTMLButtonElement>(null)
  const panel = useRef<HTMLDivElement>(null)
  const [open, setOpen] = useState(false)
  const id = useId()

  function place() {
    if (panel.current && button.current) {
      placeBeside(panel.current, button.current.getBoundingClientRect(), align)
    }
  }

  return (
    <>
      <button
        ref={button}
        type="button"
        class={`button ${text ? '' : 'icon-only plain'} ${className}`}
        aria-label={text ? undefined : label}
        title={label}
        aria-expanded={open}
        aria-haspopup="dialog"
        popovertarget={id}
      >
        {icon && <Icon name={icon} />}
        {text}
      </button>
      <div
        ref={panel}
        id={id}
        class="popover"
        popover="auto"
        role="dialog"
        aria-label={label}
        onToggle={(event) => {
          const opens = event.newState === 'open'
          setOpen(opens)
          if (opens) requestAnimationFrame(place)
        }}
      >
        {open && children(() => panel.current?.hidePopover())}
      </div>
    </>
  )
}
