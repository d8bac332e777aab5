// The drawer: everything about one record, in tabs beside the list.
import { useSignal } from '@preact/signals'
import { useEffect, useRef } from 'preact/hooks'
import { get, type Problem } from '../api/client'
import type { LogEntry } from '../api/schema'
import { go, link, parameter } from '../state/location'
import { createResource } from '../state/resource'
import { IconButton } from '../ui/button'
import { copy } from '../ui/notify'
import { ProblemView, Skeleton } from '../ui/states'
import { Tabs } from '../ui/tabs'
import { ContextTab } from './drawer-context'
import { FieldsTab } from './drawer-fields'
import { DrawerHead } from './drawer-head'
import { JsonTab } from './drawer-json'
import { PathTab } from './drawer-path'
import { TraceTab } from './drawer-trace'
import { tabsOf } from './record-tabs'
import { rows } from './records'
import { closeRow, openId, selected, selectRow } from './selection'

const tab = parameter('tab')

export function Drawer() {
  const id = openId.value
  const fetched = useSignal(createResource<LogEntry>()).value
  const listed = rows.value.find((record) => record.id === id)
  // An open record stays open, even if the next result does not contain it.
  const shown = useRef<LogEntry | undefined>(undefined)
  if (listed) shown.current = listed
  const kept = shown.current?.id === id ? shown.current : undefined
  useEffect(() => {
    if (!id || shown.current?.id === id) return
    fetched.ask(async (signal) => {
      const answer = await get('/weir/v1/context', { id, before: 0, after: 0 }, signal)
      return answer.record
    })
  }, [id, fetched])
  if (!id) return null
  const record = kept ?? (fetched.data.value?.id === id ? fetched.data.value : undefined)
  return (
    <aside class="drawer" aria-label="Record">
      {record ? <Opened record={record} /> : <Missing problem={fetched.problem.value} />}
    </aside>
  )
}

function Missing({ problem }: { problem: Problem | undefined }) {
  return (
    <>
      <header class="drawer-head">
        <h2 class="grow">Record</h2>
        <IconButton icon="close" label="Close the record" keys="Escape" onClick={closeRow} />
      </header>
      {problem ? (
        <ProblemView problem={problem} again={closeRow} />
      ) : (
        <Skeleton lines={8} label="Loading the record" />
      )}
    </>
  )
}

function Opened({ record }: { record: LogEntry }) {
  const shown = tabsOf(record)
  const current = shown.some((one) => one.id === tab.value) ? tab.value : 'fields'
  return (
    <>
      <DrawerHead record={record}>
        <IconButton
          small
          icon="chevronUp"
          label="Previous record"
          keys="k"
          onClick={() => selectRow(selected.peek() - 1)}
        />
        <IconButton
          small
          icon="chevronDown"
          label="Next record"
          keys="j"
          onClick={() => selectRow(selected.peek() + 1)}
        />
        <IconButton
          small
          icon="link"
          label="Copy a link to this record"
          onClick={() => copy(link({}), 'the link')}
        />
        <IconButton small icon="close" label="Close the record" keys="Escape" onClick={closeRow} />
      </DrawerHead>
      <Tabs
        label="Details"
        tabs={shown}
        current={current}
        onChange={(next) => go({ tab: next === 'fields' ? null : next }, { replace: true })}
      />
      <div class="drawer-body" role="tabpanel" aria-label={current}>
        <Part current={current} record={record} />
      </div>
    </>
  )
}

function Part({ current, record }: { current: string; record: LogEntry }) {
  switch (current) {
    case 'json':
      return <JsonTab record={record} />
    case 'context':
      return <ContextTab key={record.id} record={record} />
    case 'trace':
      return <TraceTab record={record} />
    case 'path':
      return <PathTab key={record.id} record={record} />
    default:
      return <FieldsTab record={record} />
  }
}
