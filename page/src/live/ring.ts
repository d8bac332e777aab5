// The rows of a live tail, with a limit. While the tail is paused, new rows are kept separately, so
// that nothing on the screen moves.

/** An incoming entry, before it has a key. */
export type Incoming =
  | { kind: 'row'; id: string; data: string }
  | { kind: 'gap' | 'note'; text: string }

export type Entry = Incoming & { key: number }

export const ringMax = 10_000

export class Ring {
  /** Entries on the screen. */
  shown: Entry[] = []
  /** Entries since the tail was paused. */
  waiting: Entry[] = []
  /** Waiting rows that were dropped for newer ones. */
  pushedOut = 0
  private next = 0

  add(entries: Incoming[], following: boolean): void {
    const keyed = entries.map((entry) => {
      this.next += 1
      return { ...entry, key: this.next }
    })
    if (following) {
      this.shown = last(this.shown.concat(this.waiting, keyed))
      this.waiting = []
      return
    }
    const all = this.waiting.concat(keyed)
    this.pushedOut += Math.max(0, all.length - ringMax)
    this.waiting = last(all)
  }

  /** Shows the waiting entries, with a note in place of those that were dropped. */
  catchUp(): void {
    const lost = this.pushedOut
    if (lost > 0) {
      this.next += 1
      const text = `${lost.toLocaleString('en')} rows arrived while paused and were dropped from the buffer`
      this.waiting.unshift({ kind: 'note', key: this.next, text })
    }
    this.shown = last(this.shown.concat(this.waiting))
    this.waiting = []
    this.pushedOut = 0
  }

  clear(): void {
    this.shown = []
    this.waiting = []
    this.pushedOut = 0
  }
}

function last(entries: Entry[]): Entry[] {
  return entries.length > ringMax ? entries.slice(-ringMax) : entries
}
