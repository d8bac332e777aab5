// The current screen and the query string, as signals. Everything that a link must restore is kept
// here and nowhere else.
import { computed, signal } from '@preact/signals'

export type Screen = 'explore' | 'live' | 'pipeline' | 'drains' | 'reliability' | 'capacity'

const root = new URL('.', document.baseURI).pathname
const paths: Record<Screen, string> = {
  explore: '',
  live: 'live',
  pipeline: 'pipeline',
  drains: 'drains',
  reliability: 'reliability',
  capacity: 'capacity',
}

const here = signal(new URL(window.location.href))

window.addEventListener('popstate', () => {
  here.value = new URL(window.location.href)
})

export const screen = computed<Screen>(() => {
  const rest = here.value.pathname.slice(root.length)
  const found = Object.entries(paths).find(([, path]) => path === rest)
  return (found?.[0] as Screen | undefined) ?? 'explore'
})

const parameters = computed(() => here.value.searchParams)

/** One parameter as a signal, which changes only when its text does. */
export function parameter(name: string) {
  return computed(() => parameters.value.get(name) ?? '')
}

export type Changes = Record<string, string | null | undefined>

/** The address of a screen with changes to the query string; empty values are left out. */
export function link(changes: Changes, target: Screen = screen.value): string {
  const url = new URL(paths[target] || '.', new URL(root, here.value.origin))
  if (target === screen.value) url.search = here.value.search
  for (const [name, value] of Object.entries(changes)) {
    if (value) url.searchParams.set(name, value)
    else url.searchParams.delete(name)
  }
  return url.href
}

/** Changes the address; `replace` adds no step to the history of the browser. */
export function go(changes: Changes, options: { screen?: Screen; replace?: boolean } = {}): void {
  const target = link(changes, options.screen)
  if (target === here.value.href) return
  if (options.replace) window.history.replaceState(null, '', target)
  else window.history.pushState(null, '', target)
  here.value = new URL(target)
}

/** Goes to an address that `link` made. */
export function follow(address: string): void {
  window.history.pushState(null, '', address)
  here.value = new URL(address)
}

/** Handles plain clicks on links between screens in the page, without loading it again. */
export function followLinks(): void {
  document.addEventListener('click', (event) => {
    const plain = event.button === 0 && !event.ctrlKey && !event.metaKey && !event.shiftKey
    const anchor = event.target instanceof Element ? event.target.closest('a') : null
    if (!plain || !anchor || event.defaultPrevented || !leadsToScreen(anchor)) return
    event.preventDefault()
    follow(anchor.href)
  })
}

function leadsToScreen(anchor: HTMLAnchorElement): boolean {
  if (anchor.origin !== window.location.origin || anchor.hasAttribute('download')) return false
  const inside = anchor.pathname.startsWith(root)
  return inside && Object.values(paths).includes(anchor.pathname.slice(root.length))
}
