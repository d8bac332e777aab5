// Preferences that are kept in this browser: signals that are saved in its local storage.
import { effect, type Signal, signal } from '@preact/signals'

const prefix = 'weir.'

export function stored<Value>(
  name: string,
  initial: Value,
  valid: (value: unknown) => value is Value,
): Signal<Value> {
  const found = signal(read(name, initial, valid))
  let first = true
  effect(() => {
    const text = JSON.stringify(found.value)
    if (first) first = false
    else write(name, text)
  })
  return found
}

function read<Value>(
  name: string,
  initial: Value,
  valid: (value: unknown) => value is Value,
): Value {
  try {
    const value: unknown = JSON.parse(window.localStorage.getItem(prefix + name) ?? 'null')
    return valid(value) ? value : initial
  } catch {
    return initial
  }
}

function write(name: string, text: string): void {
  try {
    window.localStorage.setItem(prefix + name, text)
  } catch {
    // Storage is full or not allowed: the setting lasts until the page is closed.
  }
}

export function oneOf<Value extends string>(...values: Value[]) {
  return (value: unknown): value is Value => values.includes(value as Value)
}

export function isBoolean(value: unknown): value is boolean {
  return typeof value === 'boolean'
}

export function listOf<Value>(valid: (value: unknown) => value is Value) {
  return (value: unknown): value is Value[] => Array.isArray(value) && value.every(valid)
}
