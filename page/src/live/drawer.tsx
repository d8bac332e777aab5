// One row of a live tail in full, beside the list.
import { signal, useSignal } from '@preact/signals'
import type { LogEntry } from '../api/schema'
import { FieldsTab } from '../explore/drawer-fields'
import { DrawerHead } from '../explore/drawer-head'
import { JsonTab } from '../explore/drawer-json'
import { PathTab } from '../explore/drawer-path'
import { timeOf } from '../explore/record'
import { quoteValue } from '../query/quote'
import { link } from '../state/location'
import { fixed } from '../time/range'
import { IconButton } from '../ui/button'
import { Tabs } from '../ui/tabs'

export const openedRow = signal<LogEntry | undefined>(undefined)

export function LiveDrawer() {
  const tab = useSignal('fields')
  const record = openedRow.value
  if (!record) return null
  return (
    <aside class="drawer" aria-label="Record">
      <DrawerHead record={record}>
        <a
          class="button small"
          href={aroundIt(record)}
          title="What was stored just before and after it"
        >
          Around it
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
        label="Parts of the record"
        tabs={[
          { id: 'fields', label: 'Fields' },
          { id: 'json', label: 'JSON' },
          { id: 'path', label: 'Path' },
        ]}
        current={tab.value}
        onChange={(next) => {
          tab.value = next
        }}
      />
      <div class="drawer-body" role="tabpanel" aria-label={tab.value}>
        <Part tab={tab.value} record={record} />
      </div>
    </aside>
  )
}

/** On either side of it, milliseconds. */
const around = 30_000

function aroundIt(record: LogEntry): string {
  const time = timeOf(record)
  const { service } = record.attributes
  const range = fixed({ from: time - around, to: time + around })
  return link({ ...range, q: service ? `service:${quoteValue(service)}` : '' }, 'explore')
}

function Part({ tab, record }: { tab: string; record: LogEntry }) {
  switch (tab) {
    case 'json':
      return <JsonTab record={record} />
    case 'path':
      return <PathTab record={record} isStored={false} />
    default:
      return <FieldsTab record={record} />
  }
}
