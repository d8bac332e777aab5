// Short messages: shown for a moment, and announced in a separate live region, so that lists that
// change all the time need none of their own.
import { signal } from '@preact/signals'
import { plainText } from '../format/log-text'

interface Toast {
  id: number
  text: string
}

const toasts = signal<Toast[]>([])
const spoken = signal('')
let last = 0

const shownFor = 3_000

export function notify(said: string): void {
  const text = plainText(said)
  last += 1
  const id = last
  toasts.value = [...toasts.value.slice(-2), { id, text }]
  announce(text)
  window.setTimeout(() => {
    toasts.value = toasts.value.filter((toast) => toast.id !== id)
  }, shownFor)
}

/** Announces something to screen readers only. */
export function announce(text: string): void {
  spoken.value = plainText(text)
}

export async function copy(text: string, what: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(text)
    notify(`Copied ${what}`)
  } catch {
    notify(copySelected(text) ? `Copied ${what}` : 'The browser did not allow copying')
  }
}

/** Without TLS, browsers provide the clipboard only on localhost; this works everywhere. */
function copySelected(text: string): boolean {
  const focused = document.activeElement
  const field = document.createElement('textarea')
  field.className = 'visually-hidden'
  field.value = text
  document.body.append(field)
  field.select()
  const copied = document.execCommand('copy')
  field.remove()
  if (focused instanceof HTMLElement) focused.focus()
  return copied
}

export function NotifyHost() {
  return (
    <>
      <div class="visually-hidden" role="status" aria-live="polite">
        {spoken}
      </div>
      <div class="toasts" aria-hidden="true">
        {toasts.value.map((toast) => (
          <div key={toast.id} class="toast">
            {toast.text}
          </div>
        ))}
      </div>
    </>
  )
}
