// Runs an export. The response is read as a stream, so that it has a progress and can be cancelled,
// and so that an incomplete file is never taken for a complete one. What has arrived is handed to
// the browser in pieces, which it keeps outside of the page's memory.
import { signal } from '@preact/signals'
import { asProblem, isAbort, open, type Problem } from '../api/client'
import { announce } from '../ui/notify'
import { counterOf, type Format } from './export-count'
import { asLines } from './export-text'

export type ExportState = 'running' | 'saved' | 'cut' | 'failed'

export interface Export {
  format: Format
  state: ExportState
  name: string
  bytes: number
  records: number | undefined
  /** How many records match, as far as it is known. */
  expected: number | undefined
  /** Milliseconds since it began. */
  took: number
  /** Files that were saved: Parquet comes in several if it is large. */
  files: number
  /** Why matching records are missing, as weir states it. */
  partial: string
  problem: Problem | undefined
}

export const running = signal<Export | undefined>(undefined)

let abort: AbortController | undefined
let unsaved: Blob | undefined

/** Pieces of this size leave the page's memory, bytes. */
const pieceSize = 8 << 20
const paintEvery = 120

/** Starts an export; one at a time. False while another one runs. */
export function startExport(url: string, format: Format, expected: number | undefined): boolean {
  if (running.peek()?.state === 'running') return false
  const mine = new AbortController()
  abort = mine
  unsaved = undefined
  running.value = {
    format,
    state: 'running',
    name: '',
    bytes: 0,
    records: counterOf(format).count(),
    expected,
    took: 0,
    files: 0,
    partial: '',
    problem: undefined,
  }
  window.addEventListener('beforeunload', askBeforeLeaving)
  run(url, mine).finally(() => window.removeEventListener('beforeunload', askBeforeLeaving))
  return true
}

/** Cancels a running export, and closes its panel. */
export function closeExport(): void {
  abort?.abort()
  abort = undefined
  unsaved = undefined
  running.value = undefined
}

/** Saves the incomplete file of an interrupted export. */
export function saveCut(): void {
  const found = running.peek()
  if (!found || !unsaved) return
  save(unsaved, `incomplete-${found.name}`)
  closeExport()
}

function askBeforeLeaving(event: BeforeUnloadEvent): void {
  event.preventDefault()
}

async function run(url: string, mine: AbortController): Promise<void> {
  const began = performance.now()
  const change = (next: Partial<Export>) => {
    const now = running.peek()
    if (!now || abort !== mine) return
    running.value = { ...now, ...next, took: performance.now() - began }
  }
  const format = running.peek()?.format ?? 'ndjson'
  const stamp = new Date().toISOString().slice(0, 19).replaceAll(':', '')
  try {
    let cursor = ''
    let files = 0
    do {
      const response = await open(cursor ? `${url}&cursor=${encodeURIComponent(cursor)}` : url, {
        signal: mine.signal,
        cache: 'no-store',
      })
      cursor = response.headers.get('x-weir-next') ?? ''
      const part = cursor || files > 0 ? `-${files + 1}` : ''
      const name = `weir-${stamp}${part}.${format === 'text' ? 'log' : format}`
      change({ name, partial: response.headers.get('x-weir-partial') ?? '' })
      const file = await read(response, format, change)
      if (!file) return
      files += 1
      save(file, name)
      change({ files })
    } while (cursor)
    change({ state: 'saved' })
    announce('The export has been saved')
  } catch (error) {
    if (isAbort(error) || abort !== mine) return
    change({ state: 'failed', problem: asProblem(error) })
  }
}

/** Reads a file to its end; undefined if it is interrupted, with what arrived in `unsaved`. */
async function read(
  response: Response,
  format: Format,
  change: (next: Partial<Export>) => void,
): Promise<Blob | undefined> {
  const body = format === 'text' ? response.body?.pipeThrough(asLines()) : response.body
  const reader = body?.getReader()
  const counter = counterOf(format)
  const before = running.peek()?.bytes ?? 0
  const pieces: Blob[] = []
  let chunks: Uint8Array<ArrayBuffer>[] = []
  let [bytes, kept, painted] = [0, 0, 0]
  const all = () => new Blob([...pieces, ...chunks], { type: 'application/octet-stream' })
  const paint = () => change({ bytes: before + bytes, records: counter.count() })
  try {
    for (;;) {
      const { done, value } = (await reader?.read()) ?? { done: true, value: undefined }
      if (done) break
      counter.take(value)
      chunks.push(value)
      bytes += value.length
      if (bytes - kept >= pieceSize) {
        pieces.push(new Blob(chunks))
        chunks = []
        kept = bytes
      }
      if (performance.now() - painted > paintEvery) {
        painted = performance.now()
        paint()
      }
    }
  } catch (error) {
    if (isAbort(error)) throw error
    unsaved = all()
    change({ state: 'cut', bytes: before + bytes, records: counter.count() })
    announce('The export was interrupted')
    return undefined
  }
  paint()
  return all()
}

/** How long the browser can read the saved file, milliseconds. */
const urlKept = 60_000

function save(file: Blob, name: string): void {
  const url = URL.createObjectURL(file)
  const anchor = document.createElement('a')
  anchor.href = url
  anchor.download = name
  anchor.click()
  window.setTimeout(() => URL.revokeObjectURL(url), urlKept)
}
