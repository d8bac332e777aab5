// The progress of a running export, with a way to cancel it, and whether the file is complete.
import { bytes, exact, percent, rate, seconds, short } from '../format/numbers'
import { Button, IconButton } from '../ui/button'
import { sentence } from '../ui/states'
import type { Format } from './export-count'
import { closeExport, type Export, running, saveCut } from './export-run'

export function ExportPanel() {
  const found = running.value
  if (!found) return null
  const label = found.state === 'running' ? 'Cancel the export' : 'Close'
  return (
    <section class={`export-panel ${toneOf(found)}`} aria-label="Export">
      <div class="row">
        <strong class="grow">{titleOf(found)}</strong>
        <IconButton small icon="close" label={label} onClick={closeExport} />
      </div>
      {found.state === 'running' && <Progress found={found} />}
      <p class="quiet">{figuresOf(found)}</p>
      {found.partial && (
        <p role="alert">Records are missing: {found.partial.replaceAll('_', ' ')}.</p>
      )}
      {found.state === 'cut' && <Cut found={found} />}
      {found.problem && <p role="alert">{sentence(found.problem.document.title)}</p>}
      {found.state === 'running' && (
        <Button small onClick={closeExport}>
          Cancel
        </Button>
      )}
    </section>
  )
}

function toneOf({ state, partial }: Export): string {
  return state === 'cut' || state === 'failed' || partial ? 'bad' : ''
}

const formatNames: Record<Format, string> = {
  ndjson: 'NDJSON',
  csv: 'CSV',
  parquet: 'Parquet',
  text: 'text',
}

function titleOf({ state, format, name, files, partial }: Export): string {
  switch (state) {
    case 'running':
      return `Exporting ${formatNames[format]}`
    case 'saved':
      if (files > 1) return `Saved ${exact(files)} files`
      return partial ? `Saved ${name}, which is incomplete` : `Saved ${name}`
    case 'cut':
      return 'The export was interrupted'
    case 'failed':
      return 'The export failed'
  }
}

function Progress({ found }: { found: Export }) {
  const { records, expected } = found
  const share = records !== undefined && expected ? Math.min(1, records / expected) : undefined
  return (
    <progress aria-label="Exported" {...(share === undefined ? {} : { value: share, max: 1 })} />
  )
}

function figuresOf({ records, expected, bytes: size, took, state }: Export): string {
  const done =
    records === undefined ? '' : `${short(records)} ${records === 1 ? 'record' : 'records'}`
  const share = records !== undefined && expected ? records / expected : 0
  const of = expected && records !== undefined ? ` of ${short(expected)}` : ''
  const left =
    state === 'running' && share > 0.01 && share < 1
      ? `${percent(share)}, ${seconds(Math.ceil((took / share - took) / 1_000))} left`
      : ''
  const speed = state === 'running' && took > 500 ? rate((records ?? 0) / (took / 1_000)) : ''
  const length = state === 'running' ? '' : `in ${seconds(took / 1_000)}`
  const parts = [done + of, bytes(size), records ? speed : '', left, length]
  return parts.filter(Boolean).join(' · ')
}

function Cut({ found }: { found: Export }) {
  return (
    <>
      <p role="alert">
        The connection was lost before the export was complete: records are missing at its end.
      </p>
      {found.bytes > 0 && (
        <Button small icon="download" onClick={saveCut}>
          Save the incomplete file
        </Button>
      )}
    </>
  )
}
