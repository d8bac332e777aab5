// Which fields are columns, and how wide they are. Columns are part of the address, widths are
// stored in the browser.
import { computed } from '@preact/signals'
import { go, parameter } from '../state/location'
import { stored } from '../state/stored'

const columnsParameter = parameter('cols')

export const defaultColumns = ['service', 'message']

export const columns = computed(() => {
  const names = columnsParameter.value.split(',').filter(Boolean)
  return names.length > 0 ? names : defaultColumns
})

export function setColumns(names: string[]): void {
  const unlike = names.join() !== defaultColumns.join()
  go({ cols: names.length > 0 && unlike ? names.join() : null }, { replace: true })
}

/** A new column stands before the message, which takes what is left of the width. */
export function toggleColumn(name: string): void {
  const now = columns.peek()
  if (now.includes(name)) setColumns(now.filter((one) => one !== name))
  else if (now.at(-1) === 'message') setColumns([...now.slice(0, -1), name, 'message'])
  else setColumns([...now, name])
}

export function moveColumn(name: string, by: number): void {
  const now = columns.peek()
  const at = now.indexOf(name)
  const to = Math.max(0, Math.min(now.length - 1, at + by))
  if (at < 0 || at === to) return
  const rest = now.filter((one) => one !== name)
  setColumns([...rest.slice(0, to), name, ...rest.slice(to)])
}

const isWidths = (value: unknown): value is Record<string, number> =>
  typeof value === 'object' &&
  value !== null &&
  Object.values(value).every((width) => typeof width === 'number')

export const widths = stored<Record<string, number>>('widths', {}, isWidths)

const usual: Record<string, number> = { timestamp: 172, service: 130, host: 120, source: 110 }

export const widthMin = 48
export const widthMax = 1_600

export function widthOf(name: string): number {
  return widths.value[name] ?? usual[name] ?? 150
}

export function setWidth(name: string, width: number): void {
  const kept = Math.round(Math.max(widthMin, Math.min(widthMax, width)))
  widths.value = { ...widths.peek(), [name]: kept }
}

/** The grid of a row: stripe, time, then the columns; the message takes the rest. */
export const template = computed(() => {
  const shown = columns.value
  const tracks = shown.map((name, index) => {
    const grows = name === 'message' || (index === shown.length - 1 && !shown.includes('message'))
    return grows ? `minmax(${widthOf(name)}px, 1fr)` : `${widthOf(name)}px`
  })
  return `19px ${widthOf('timestamp')}px ${tracks.join(' ')}`
})
