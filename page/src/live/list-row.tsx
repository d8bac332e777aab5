// A row of a live tail: the color and name of its stream, time, severity and message.
import type { Ref } from 'preact'
import { fieldOf, textOf, timeOf } from '../explore/record'
import { oneLine, plainText } from '../format/log-text'
import { letterOf, statusOf, toneOf } from '../format/status'
import { full } from '../format/times'
import { Clock } from '../ui/clock'
import { LogText } from '../ui/log-text'
import { memo } from '../ui/memo'
import { colorOfName } from '../ui/theme'
import { openedRow } from './drawer'
import type { Entry } from './ring'
import { readRow } from './row'
import { pause } from './tail'

interface Place {
  top: number
  index: number
  rowRef: Ref<HTMLDivElement> | undefined
}

interface LiveRowProps extends Place {
  entry: Entry & { kind: 'row' }
  wrapped: boolean
  words: RegExp | undefined
}

const shownInLine = 800
const shownWrapped = 6_000

export const LiveRow = memo(function LiveRow({
  entry,
  wrapped,
  words,
  top,
  index,
  rowRef,
}: LiveRowProps) {
  const record = readRow(entry.id, entry.data)
  const { service, message } = record.attributes
  const status = statusOf(record.attributes.status)
  const name = service || textOf(fieldOf(record, 'container.name')) || (record.weir?.source ?? '')
  const color = `var(${colorOfName(name || (record.weir?.stream ?? ''))})`
  const text = textOf(message)
  function open() {
    pause()
    openedRow.value = record
  }
  return (
    <div
      {...(rowRef ? { ref: rowRef } : {})}
      data-index={index}
      class={`record live-row tone-${toneOf(status)}`}
      style={{ transform: `translateY(${top}px)`, '--stream': color }}
      role="button"
      tabIndex={0}
      onClick={() => (window.getSelection()?.isCollapsed === false ? undefined : open())}
      onKeyDown={(event) => event.key === 'Enter' && open()}
    >
      <span class="cell level" title={status}>
        {letterOf(status)}
      </span>
      <span class="cell time" title={full(timeOf(record))}>
        <Clock time={timeOf(record)} />
      </span>
      <span class="cell stream" title={plainText(`${name}, stream ${record.weir?.stream ?? ''}`)}>
        <LogText text={name} />
      </span>
      <span class="cell message">
        <LogText
          text={wrapped ? text.slice(0, shownWrapped) : oneLine(text, shownInLine)}
          words={words}
        />
      </span>
    </div>
  )
})

export function GapRow({
  kind,
  text,
  top,
  index,
  rowRef,
}: Place & { kind: 'gap' | 'note'; text: string }) {
  return (
    <div
      {...(rowRef ? { ref: rowRef } : {})}
      data-index={index}
      class={`record live-gap ${kind}`}
      style={{ transform: `translateY(${top}px)` }}
    >
      <span>⋯ {text} ⋯</span>
    </div>
  )
}
