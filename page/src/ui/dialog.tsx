// A modal dialog: the browser keeps the focus in it and closes it on Escape.
import type { ComponentChildren } from 'preact'
import { useEffect, useRef } from 'preact/hooks'
import { IconButton } from './button'

interface DialogProps {
  title: string
  onClose: () => void
  children: ComponentChildren
}

export function Dialog({ title, onClose, children }: DialogProps) {
  const element = useRef<HTMLDialogElement>(null)
  useEffect(() => {
    element.current?.showModal()
  }, [])
  return (
    <dialog ref={element} aria-label={title} onClose={onClose}>
      <header>
        <h2>{title}</h2>
        <IconButton icon="close" label="Close" onClick={() => element.current?.close()} />
      </header>
      <div class="content">{children}</div>
    </dialog>
  )
}
