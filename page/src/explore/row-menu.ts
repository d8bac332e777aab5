// The menu of a row in the list of records, opened by keyboard or with the secondary mouse button.
import { jsonOf } from '../api/exact'
import { link } from '../state/location'
import { type MenuItem, openMenu } from '../ui/menu'
import { copy } from '../ui/notify'
import { lineOf, traceOf } from './record'
import { rows } from './records'
import { openId, openRow, openTab, selectRow } from './selection'
import { exclude, include } from './value-menu'

export function openRowMenu(anchor: HTMLElement, index: number): void {
  const record = rows.peek()[index]
  if (!record) return
  selectRow(index)
  const isOpen = openId.peek() === record.id
  const { service } = record.attributes
  const look: MenuItem[] = [
    {
      label: isOpen ? 'Close the record' : 'Open the record',
      hint: 'o',
      run: () => openRow(index),
    },
    { label: 'Show its context', hint: 'x', run: () => openTab('context') },
  ]
  if (traceOf(record))
    look.push({ label: 'Show its trace', hint: 't', run: () => openTab('trace') })
  const filter: MenuItem[] = [
    { label: 'Show only its service', icon: 'include', run: () => include('service', service) },
    { label: 'Hide its service', icon: 'exclude', run: () => exclude('service', service) },
  ]
  openMenu(anchor, 'Record', [
    { items: look },
    { items: service ? filter : [] },
    {
      items: [
        {
          label: 'Copy as a line',
          icon: 'copy',
          hint: 'y',
          run: () => copy(lineOf(record), 'the record as a line'),
        },
        {
          label: 'Copy as JSON',
          icon: 'copy',
          run: () => copy(jsonOf(record, 2), 'the record as JSON'),
        },
        {
          label: 'Copy a link to it',
          icon: 'link',
          run: () => copy(link({ row: record.id }), 'the link'),
        },
      ],
    },
  ])
}
