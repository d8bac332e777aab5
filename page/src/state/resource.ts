// A response that depends on signals: requested again when they change, while the previous one
// stays on the screen, so that nothing jumps.
import { type ReadonlySignal, signal } from '@preact/signals'
import { asProblem, isAbort, type Problem } from '../api/client'

interface Answer<Value> {
  /** The last successful response, possibly to the previous question. */
  data: ReadonlySignal<Value | undefined>
  problem: ReadonlySignal<Problem | undefined>
  loading: ReadonlySignal<boolean>
}

export interface Resource<Value> extends Answer<Value> {
  ask: (load: (signal: AbortSignal) => Promise<Value>) => Promise<void>
  clear: () => void
}

export function createResource<Value>(): Resource<Value> {
  const data = signal<Value | undefined>(undefined)
  const problem = signal<Problem | undefined>(undefined)
  const loading = signal(false)
  let current: AbortController | undefined

  async function ask(load: (signal: AbortSignal) => Promise<Value>): Promise<void> {
    current?.abort()
    const mine = new AbortController()
    current = mine
    loading.value = true
    try {
      const value = await load(mine.signal)
      if (current !== mine) return
      data.value = value
      problem.value = undefined
    } catch (error) {
      if (isAbort(error) || current !== mine) return
      problem.value = asProblem(error)
    }
    loading.value = false
  }

  function clear(): void {
    current?.abort()
    current = undefined
    data.value = undefined
    problem.value = undefined
    loading.value = false
  }

  return { data, problem, loading, ask, clear }
}

/** The problem to show in place of a result: a rejection, or any problem while there is no result. */
export function problemInstead({ data, problem }: Answer<unknown>): Problem | undefined {
  const found = problem.value
  return found?.kind === 'refused' || data.value === undefined ? found : undefined
}

/** Whether the result may be that of the previous question. */
export function isOutdated({ loading, problem }: Answer<unknown>): boolean {
  return loading.value || problem.value !== undefined
}
