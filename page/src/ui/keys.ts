// All keyboard shortcuts of the page in one register. What a key does is stated where it is bound,
// so the help is never out of date.
import { signal } from '@preact/signals'
import { useEffect } from 'preact/hooks'

export interface Binding {
  /** As it is shown: `j`, `g l`, `Ctrl+Enter`. */
  keys: string
  does: string
  group: 'Everywhere' | 'Query and time' | 'Records' | 'Live tail' | 'Pipeline'
  run: () => void
}

export const bindings = signal<Binding[]>([])

/** Binds keys while a component is shown. */
export function useKeys(added: Binding[]): void {
  useEffect(() => {
    bindings.value = [...bindings.peek(), ...added]
    return () => {
      bindings.value = bindings.peek().filter((one) => !added.includes(one))
    }
  }, [])
}

/** While one of these is open, it has the keys: Escape must close it, and nothing behind it. */
const above = 'dialog[open], :popover-open'

let prefix = ''
let prefixTimer = 0

export function listenForKeys(): void {
  window.addEventListener('keydown', (event) => {
    if (event.defaultPrevented) return
    const typed = nameOf(event)
    if (isTyping(event) && !typed.startsWith('Ctrl+')) return
    if (document.querySelector(above)) return
    const keys = prefix ? `${prefix} ${typed}` : typed
    const found = bindings.peek().findLast((one) => one.keys === keys)
    setPrefix(!found && !prefix && startsSequence(typed) ? typed : '')
    if (!found) return
    event.preventDefault()
    found.run()
  })
}

function nameOf(event: KeyboardEvent): string {
  if (event.altKey) return ''
  return event.ctrlKey || event.metaKey ? `Ctrl+${event.key}` : event.key
}

function isTyping(event: KeyboardEvent): boolean {
  const target = event.composedPath()[0]
  if (!(target instanceof HTMLElement)) return false
  return target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName)
}

function startsSequence(key: string): boolean {
  return bindings.peek().some((one) => one.keys.startsWith(`${key} `))
}

const sequenceWait = 1_200

function setPrefix(key: string): void {
  prefix = key
  window.clearTimeout(prefixTimer)
  if (key) prefixTimer = window.setTimeout(() => setPrefix(''), sequenceWait)
}
