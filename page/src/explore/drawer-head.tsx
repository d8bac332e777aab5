// The header of a record's drawer: severity, service and time.
import type { ComponentChildren } from 'preact'
import type { LogEntry } from '../api/schema'
import { statusOf, toneOf } from '../format/status'
import { full } from '../format/times'
import { LogText } from '../ui/log-text'
import { timeOf } from './record'

export function DrawerHead({
  record,
  children,
}: {
  record: LogEntry
  children: ComponentChildren
}) {
  const { service, host, status } = record.attributes
  const severity = statusOf(status)
  return (
    <header class="drawer-head">
      <span class={`level-badge tone-${toneOf(severity)}`}>{severity}</span>
      <div class="grow drawer-title">
        <strong>
          <LogText text={service ?? host ?? record.weir?.source ?? 'record'} />
        </strong>
        <span class="quiet"> {full(timeOf(record))}</span>
      </div>
      {children}
    </header>
  )
}
