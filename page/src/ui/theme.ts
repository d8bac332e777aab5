// Colors of the style sheet for drawing on a canvas, and a signal for when they change.
import { signal } from '@preact/signals'
import { theme } from '../state/settings'

/** Increases whenever the colors change. */
export const themeVersion = signal(0)

export function watchTheme(): void {
  const changed = () => {
    themeVersion.value += 1
  }
  window.matchMedia('(prefers-color-scheme: dark)').addEventListener('change', changed)
  theme.subscribe(() => queueMicrotask(changed))
}

const probe = document.createElement('span')

/** A color of the style sheet in the form that a canvas accepts. */
export function color(name: string): string {
  if (!probe.isConnected) {
    probe.hidden = true
    document.body.append(probe)
  }
  probe.style.color = `var(${name})`
  return getComputedStyle(probe).color
}

/** Ten colors for streams, groups and other series. */
export function seriesColor(index: number): string {
  return `--series-${(index % 10) + 1}`
}

/** Always the same color for the same name. */
export function colorOfName(name: string): string {
  let hash = 2_166_136_261
  for (let at = 0; at < name.length; at += 1) {
    hash = Math.imul(hash ^ name.charCodeAt(at), 16_777_619)
  }
  return seriesColor((hash >>> 0) % 10)
}
