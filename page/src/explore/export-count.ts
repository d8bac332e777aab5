// Counts the records of an export from its bytes, without decoding them.

/** `text` is written by the page, from NDJSON. */
export type Format = 'ndjson' | 'csv' | 'parquet' | 'text'

export interface RecordCounter {
  /** Undefined if the format does not tell before its end. */
  count: () => number | undefined
  take: (bytes: Uint8Array) => void
}

export function counterOf(format: Format): RecordCounter {
  if (format === 'parquet') return { count: () => undefined, take: () => undefined }
  return format === 'csv' ? new CsvCounter() : new LineCounter()
}

const lineFeed = 10
const quote = 34

class LineCounter implements RecordCounter {
  private lines = 0

  count(): number {
    return this.lines
  }

  take(bytes: Uint8Array): void {
    let at = bytes.indexOf(lineFeed)
    while (at >= 0) {
      this.lines += 1
      at = bytes.indexOf(lineFeed, at + 1)
    }
  }
}

/** A line feed in quotes is part of a value, where quotes are doubled. The first is a header. */
class CsvCounter implements RecordCounter {
  private lines = 0
  private isQuoted = false

  count(): number {
    return Math.max(0, this.lines - 1)
  }

  take(bytes: Uint8Array): void {
    for (const byte of bytes) {
      if (byte === quote) this.isQuoted = !this.isQuoted
      else if (byte === lineFeed && !this.isQuoted) this.lines += 1
    }
  }
}
