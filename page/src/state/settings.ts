// Preferences of the user: theme, density, wrapping, time zone.
import { effect, signal } from '@preact/signals'
import { isBoolean, oneOf, stored } from './stored'

export type Theme = 'system' | 'light' | 'dark'
export type Density = 'compact' | 'comfortable'

export const theme = stored<Theme>('theme', 'system', oneOf('system', 'light', 'dark'))
export const density = stored<Density>('density', 'compact', oneOf('compact', 'comfortable'))
export const wrap = stored('wrap', false, isBoolean)
export const histogramShown = stored('histogram', true, isBoolean)
/** On a phone they cover everything else, so they are hidden until they are opened. */
export const facetsShown =
  window.innerWidth > 820 ? stored('facets', true, isBoolean) : signal<boolean>(false)

/** `local`, `utc`, or a name of the IANA database. */
export const zone = stored('zone', 'local', (value): value is string => typeof value === 'string')

/** The zone as the API and `Intl` take it. */
export function zoneName(setting: string): string {
  if (setting === 'utc') return 'UTC'
  if (setting === 'local') return Intl.DateTimeFormat().resolvedOptions().timeZone
  return setting
}

export function applyTheme(): void {
  effect(() => {
    const choice = theme.value
    if (choice === 'system') delete document.documentElement.dataset.theme
    else document.documentElement.dataset.theme = choice
  })
}
