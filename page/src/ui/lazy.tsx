// Components that are fetched when they are first shown.
import { signal } from '@preact/signals'
import type { ComponentType, VNode } from 'preact'
import { useEffect } from 'preact/hooks'
import { ReloadButton } from './button'
import { Empty } from './states'

export interface Lazy {
  part: ReturnType<typeof signal<ComponentType | undefined>>
  failed: ReturnType<typeof signal<boolean>>
  load: () => void
}

export function lazy(fetch: () => Promise<ComponentType>): Lazy {
  const part = signal<ComponentType | undefined>(undefined)
  const failed = signal<boolean>(false)
  function load() {
    if (part.peek()) return
    fetch().then(
      (found) => {
        part.value = found
        failed.value = false
      },
      () => {
        failed.value = true
      },
    )
  }
  return { part, failed, load }
}

export function Suspense({ part, fallback }: { part: Lazy; fallback: VNode }) {
  useEffect(() => part.load(), [part])
  const Found = part.part.value
  if (Found) return <Found />
  if (!part.failed.value) return fallback
  return (
    <Empty title="This part of the page could not be fetched" actions={<ReloadButton />}>
      <p>weir may have been stopped or upgraded since the page was loaded.</p>
    </Empty>
  )
}
