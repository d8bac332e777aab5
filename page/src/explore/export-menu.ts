// The menu for exporting all matching records, and for running the same query elsewhere.
import { address } from '../api/client'
import { quoteKey } from '../query/quote'
import { link } from '../state/location'
import { fixed } from '../time/range'
import { type MenuGroup, openMenu } from '../ui/menu'
import { copy, notify } from '../ui/notify'
import { columns } from './columns'
import type { Format } from './export-count'
import { startExport } from './export-run'
import { matched } from './matched'
import { addressOf, filterOf, question } from './question'
import { sort } from './records'

export function openExportMenu(anchor: HTMLElement): void {
  openMenu(anchor, 'Export and share', [linkGroup(), fileGroup(), commandGroup()])
}

function linkGroup(): MenuGroup {
  const times = fixed(question.peek().span)
  return {
    title: 'Link to this page',
    items: [
      { label: 'Copy the link', icon: 'link', run: () => copy(link({}), 'the link') },
      {
        label: 'Copy the link with fixed times',
        icon: 'clock',
        run: () => copy(link({ from: times.from, to: times.to }), 'the link with fixed times'),
      },
    ],
  }
}

function fileGroup(): MenuGroup {
  const asked = { ...addressOf(question.peek()), sort: sort.peek() }
  const shown = namesOf(['timestamp', 'host', 'status', ...columns.peek()])
  const item = (label: string, format: Format, more: Record<string, string> = {}) => ({
    label,
    icon: 'download' as const,
    run: () => {
      const sent = format === 'text' ? 'ndjson' : format
      exportAs(format, address('/weir/v1/export', { ...asked, format: sent, ...more }))
    },
  })
  return {
    title: 'All records that match',
    items: [
      item('Text, a line each', 'text'),
      item('NDJSON', 'ndjson'),
      item('CSV with these columns', 'csv', { columns: shown }),
      { ...item('Parquet', 'parquet', { pieces: 'true' }), hint: 'several files if large' },
    ],
  }
}

function exportAs(format: Format, url: string): void {
  if (!startExport(url, format, matched.peek())) notify('An export is running')
}

/** Names of fields for commands and requests, each once. */
function namesOf(fields: string[]): string {
  return [...new Set(fields)].map(quoteKey).join()
}

function commandGroup(): MenuGroup {
  return {
    title: 'The same query elsewhere',
    items: [
      {
        label: 'Copy as a weir command',
        icon: 'copy',
        run: () => copy(asCommand(), 'the command'),
      },
      { label: 'Copy as a curl command', icon: 'copy', run: () => copy(asCurl(), 'the command') },
    ],
  }
}

/** Text as a single word of a shell. */
export function shellWord(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`
}

function asCommand(): string {
  const { query, from, to } = filterOf(question.peek())
  const shown = namesOf(['timestamp', ...columns.peek()])
  const separator = query.startsWith('-') ? ' --' : ''
  return `weir search --from ${from} --to ${to} --columns ${shellWord(shown)}${separator} ${shellWord(query)}`
}

function asCurl(): string {
  const body = JSON.stringify({
    filter: filterOf(question.peek()),
    sort: sort.peek(),
    page: { limit: 1000 },
  })
  const url = address('/api/v2/logs/events/search')
  return `curl -s ${shellWord(url)} -H 'content-type: application/json' -d ${shellWord(body)}`
}
