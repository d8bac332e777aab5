// Colors of the style sheet for drawing on a canvas, and a signal for when they change.
import { signal } from '@preact/signals'
import { theme } from '../state/settings'

/** Grows whenever the colours are others. */
export const themeVersion = signal(0)

export function watchTheme(): void {
  const changed = () => {
    themeVersion.value += 1
  }
  window.matchMedia('(prefers-color-scheme: dark)').addEventListener('change', changed)
  theme.subscribe(() => queueMicrotask(changed))
}

const probe = document.createElement('span')

/** A colour of the style sheet as a canvas takes it. */
export function colour(name: string): string {
  if (!probe.isConnected) {
    probe.hidden = true
    document.body.append(probe)
  }
  probe.style.color = `var(${name})`
  return getComputedStyle(probe).color
}

/** Ten colours for what has no colour of its own, such as streams and groups. */
export function seriesColour(index: number): string {
  return `--series-${(index % 10) + 1}`
}

/** The same colour for the same name, always. */
export function colourOfName(name: string): string {
  let hash = 2_166_136_261
  for (let at = 0; at < name.length; at += 1) {
    hash = Math.imul(hash ^ name.charCodeAt(at), 16_777_619)
  }
  return seriesColour((hash >>> 0) % 10)
}
