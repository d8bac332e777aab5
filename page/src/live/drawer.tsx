// One row of a live tail in full, beside the list.
import { signal, useSignal } from '@preact/signals'
import type { LogEntry } from '../api/schema'
import { FieldsTab } from '../explore/drawer-fields'
import { DrawerHead } from '../explore/drawer-head'
import { JsonTab } from '../explore/drawer-json'
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
        ]}
        current={tab.value}
        onChange={(next) => {
          tab.value = next
        }}
      />
      <div class="drawer-body" role="tabpanel" aria-label={tab.value}>
        {tab.value === 'json' ? <JsonTab record={record} /> : <FieldsTab record={record} />}
      </div>
    </aside>
  )
}
