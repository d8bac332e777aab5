// A row of a live tail in full, beside the list. As soon as it is stored, it has everything that a
// stored record has: a link, its context and its trace.
import { signal, useSignal } from '@preact/signals'
import { useEffect } from 'preact/hooks'
import type { LogEntry } from '../api/schema'
import { ContextTab } from '../explore/drawer-context'
import { FieldsTab } from '../explore/drawer-fields'
import { DrawerHead } from '../explore/drawer-head'
import { JsonTab } from '../explore/drawer-json'
import { PathTab } from '../explore/drawer-path'
import { TraceTab } from '../explore/drawer-trace'
import { recordLink } from '../explore/record-link'
import { tabsOf } from '../explore/record-tabs'
import { createResource } from '../state/resource'
import { IconButton } from '../ui/button'
import { Empty, Skeleton } from '../ui/states'
import { Tabs } from '../ui/tabs'
import { findStored } from './stored'

export const openedRow = signal<LogEntry | undefined>(undefined)

/** The stored record, and whether the search for it is over. */
interface Stored {
  searched: boolean
  record: LogEntry | undefined
}

function useStored(row: LogEntry | undefined): Stored {
  const found = useSignal(createResource<LogEntry | undefined>()).value
  useEffect(() => {
    if (!row) return
    found.ask((signal) => findStored(row.id, signal))
    return found.clear
  }, [row, found])
  return { searched: !found.loading.value, record: found.data.value }
}

export function LiveDrawer() {
  const tab = useSignal('fields')
  const row = openedRow.value
  const stored = useStored(row)
  if (!row) return null
  const shown = tabsOf(row)
  const current = shown.some((one) => one.id === tab.value) ? tab.value : 'fields'
  return (
    <aside class="drawer" aria-label="Record">
      <DrawerHead record={row}>
        <a
          class="button small"
          href={recordLink(row, stored.record?.id)}
          title="Stored records of its service around its time"
        >
          Open in Explore
        </a>
        <IconButton
          small
          icon="close"
          label="Close the record"
          keys="Escape"
          onClick={() => {
            openedRow.value = undefined
          }}
        />
      </DrawerHead>
      <Tabs
        label="Details"
        tabs={shown}
        current={current}
        onChange={(next) => {
          tab.value = next
        }}
      />
      <div class="drawer-body" role="tabpanel" aria-label={current}>
        <Part tab={current} row={row} stored={stored} />
      </div>
    </aside>
  )
}

function Part({ tab, row, stored }: { tab: string; row: LogEntry; stored: Stored }) {
  switch (tab) {
    case 'json':
      return <JsonTab record={row} />
    case 'context':
      if (!stored.record) return <NotStored searched={stored.searched} />
      return <ContextTab key={stored.record.id} record={stored.record} />
    case 'trace':
      return <TraceTab record={stored.record ?? row} />
    case 'path':
      return <PathTab key={row.id} record={row} />
    default:
      return <FieldsTab record={row} />
  }
}

function NotStored({ searched }: { searched: boolean }) {
  if (!searched) return <Skeleton lines={10} label="Waiting until it is stored" />
  return (
    <Empty title="Not in the store">
      <p>
        Only stored records have a context. A rule may have sent this one elsewhere, or there is no
        store.
      </p>
    </Empty>
  )
}
