// The records before and after a record in its stream, in the order of the stream, regardless of
// the query.
import { useSignal } from '@preact/signals'
import { useEffect, useLayoutEffect, useRef } from 'preact/hooks'
import { get } from '../api/client'
import type { ContextAnswer, LogEntry } from '../api/schema'
import { oneLine, wordsExpression } from '../format/log-text'
import { letterOf, statusOf, toneOf } from '../format/status'
import { clock } from '../format/times'
import { createResource } from '../state/resource'
import { Button } from '../ui/button'
import { LogText } from '../ui/log-text'
import { ProblemView, Skeleton } from '../ui/states'
import { timeOf } from './record'
import { showRecord } from './record-link'

const step = 50
const most = 1_000

export function ContextTab({ record }: { record: LogEntry }) {
  const reachBefore = useSignal(step)
  const reachAfter = useSignal(step)
  const filter = useSignal('')
  const context = useSignal(createResource<ContextAnswer>()).value
  const [before, after] = [reachBefore.value, reachAfter.value]

  function load() {
    context.ask((signal) => get('/weir/v1/context', { id: record.id, before, after }, signal))
  }
  useEffect(load, [record.id, before, after])

  const answer = context.data.value
  if (!answer) {
    const problem = context.problem.value
    return problem ? (
      <ProblemView problem={problem} again={load} />
    ) : (
      <Skeleton lines={10} label="Loading the context" />
    )
  }
  return (
    <>
      <div class="drawer-actions sticky">
        <input
          class="field small grow"
          placeholder="Filter…"
          aria-label="Only records with this text"
          onInput={(event) => {
            filter.value = event.currentTarget.value
          }}
        />
        <Button small disabled={before >= most} onClick={() => grow(reachBefore)}>
          Show more before
        </Button>
        <Button small disabled={after >= most} onClick={() => grow(reachAfter)}>
          Show more after
        </Button>
      </div>
      <ContextList answer={answer} filter={filter.value} />
    </>
  )
}

function grow(reach: { value: number }): void {
  reach.value = Math.min(most, reach.value + step * 2)
}

function ContextList({ answer, filter }: { answer: ContextAnswer; filter: string }) {
  const middle = useRef<HTMLLIElement>(null)
  useLayoutEffect(() => middle.current?.scrollIntoView({ block: 'center' }), [])
  const wanted = filter.toLowerCase()
  const has = (record: LogEntry) => (record.attributes.message ?? '').toLowerCase().includes(wanted)
  const all = [...answer.before, answer.record, ...answer.after]
  const shown = all.filter((record) => record === answer.record || has(record))
  const words = filter ? wordsExpression([filter]) : undefined
  return (
    <>
      <p class="quiet drawer-note">
        {answer.before.length} before and {answer.after.length} after it in the same stream,
        regardless of the query.
      </p>
      <ol class="record-lines">
        {shown.map((record) => (
          <li
            key={record.id}
            ref={record === answer.record ? middle : null}
            class={`record-line tone-${toneOf(statusOf(record.attributes.status))}`}
            aria-current={record === answer.record}
          >
            <span class="level">{letterOf(statusOf(record.attributes.status))}</span>
            <span class="time">{clock(timeOf(record))}</span>
            <button type="button" class="record-line-text" onClick={() => showRecord(record)}>
              <LogText text={oneLine(record.attributes.message ?? '', 400)} words={words} />
            </button>
          </li>
        ))}
      </ol>
    </>
  )
}
