// Patterns of messages, the most frequent first, of the same records as in the list.
import { useSignal } from '@preact/signals'
import { useEffect } from 'preact/hooks'
import { get } from '../api/client'
import type { PatternEntry, PatternsAnswer } from '../api/schema'
import { oneLine } from '../format/log-text'
import { exact, percent, short } from '../format/numbers'
import { withTerm } from '../query/terms'
import { go } from '../state/location'
import { createResource, isOutdated, problemInstead } from '../state/resource'
import { Button, IconButton } from '../ui/button'
import { LogText } from '../ui/log-text'
import { Sparkline } from '../ui/sparkline'
import { Empty, Partial, ProblemView, Skeleton } from '../ui/states'
import { aggregate } from './aggregate'
import { addressOf, askAgain, filterOf, query, question } from './question'
import { timelineOf, valuesOn } from './series'
import { setQueryNow } from './value-menu'

export function Patterns() {
  const found = useSignal(createResource<PatternsAnswer>()).value
  const asked = question.value
  useEffect(() => {
    found.ask((signal) =>
      get('/weir/v1/patterns', { ...addressOf(asked), limit: 100, timeout: '5s' }, signal),
    )
  }, [asked, found])

  const answer = found.data.value
  const problem = problemInstead(found)
  if (problem) return <ProblemView problem={problem} again={askAgain} suggest={setQueryNow} />
  if (!answer) return <Skeleton lines={12} label="Looking for patterns" />
  if (answer.patterns.length === 0) return <Empty title="No patterns: no records match" />
  const most = answer.patterns[0]?.share ?? 1
  return (
    <div class={`patterns scroll${isOutdated(found) ? ' stale' : ''}`}>
      <Partial meta={answer.meta} />
      <ul class="pattern-list">
        {answer.patterns.map((pattern) => (
          <Pattern key={pattern.template} pattern={pattern} most={most} />
        ))}
      </ul>
    </div>
  )
}

function Pattern({ pattern, most }: { pattern: PatternEntry; most: number }) {
  const open = useSignal(false)
  return (
    <li class="pattern">
      <div class="pattern-row">
        <span class="pattern-share" title={`${exact(pattern.count)} records`}>
          <span class="pattern-bar" style={{ width: `${(pattern.share / most) * 100}%` }} />
        </span>
        <span class="number pattern-count">{short(pattern.count)}</span>
        <span class="number quiet pattern-percent">{percent(pattern.share)}</span>
        <button
          type="button"
          class="pattern-text"
          aria-expanded={open.value}
          onClick={() => {
            open.value = !open.value
          }}
        >
          <Template text={pattern.template} />
        </button>
        <IconButton
          small
          icon="include"
          label="Only records of this pattern"
          onClick={() => narrow(pattern, '')}
        />
        <IconButton
          small
          icon="exclude"
          label="Hide records of this pattern"
          onClick={() => narrow(pattern, '-')}
        />
      </div>
      {open.value && <Examples pattern={pattern} />}
    </li>
  )
}

function Template({ text }: { text: string }) {
  const pieces = oneLine(text, 500).split('*')
  return (
    <>
      {pieces.map((piece, index) => (
        <span key={index}>
          {index > 0 && <span class="pattern-hole">*</span>}
          <LogText text={piece} />
        </span>
      ))}
    </>
  )
}

const points = 60

/** The records of a pattern over time, counted once it is opened. */
function Times({ pattern }: { pattern: PatternEntry }) {
  const found = useSignal(createResource<number[]>()).value
  const asked = question.value
  useEffect(() => {
    const query = phrasesOf(pattern.template).reduce(withTerm, asked.query)
    const body = {
      filter: filterOf({ ...asked, query }),
      compute: [{ aggregation: 'count', type: 'timeseries' as const }],
      weir: { points, calculated_fields: asked.measures },
    }
    found.ask(async (signal) => {
      const answer = await aggregate(body, signal)
      const { times } = timelineOf(answer, asked.span)
      const counts = valuesOn(times, answer.data.buckets[0]?.computes.c0, 0)
      return counts.map((count) => count ?? 0)
    })
  }, [asked, pattern.template, found])
  const counts = found.data.value
  if (!counts || counts.length < 2) return null
  const most = exact(Math.max(...counts))
  return (
    <div class="pattern-times">
      <Sparkline
        values={counts}
        label={`Records with these words over time, at most ${most} at once`}
        width={240}
        height={32}
      />
      <span class="quiet">over the range; at most {most} at once</span>
    </div>
  )
}

function Examples({ pattern }: { pattern: PatternEntry }) {
  return (
    <div class="pattern-examples">
      <Times pattern={pattern} />
      {pattern.examples.map((record) => (
        <button
          key={record.id}
          type="button"
          class="pattern-example"
          onClick={() => go({ view: null, row: record.id })}
        >
          <LogText text={oneLine(record.attributes.message ?? '', 400)} />
        </button>
      ))}
      <Button small icon="search" onClick={() => narrow(pattern, '')}>
        Show its records
      </Button>
    </div>
  )
}

/** The text between the placeholders of a template, as phrases that must all match. */
export function phrasesOf(template: string): string[] {
  return template
    .split('*')
    .map((piece) => piece.replaceAll('"', ' ').replaceAll('\\', ' ').trim())
    .filter((piece) => /[\p{L}\p{N}]/u.test(piece))
    .map((piece) => `"${piece.replace(/\s+/g, ' ')}"`)
}

function narrow(pattern: PatternEntry, sign: '' | '-'): void {
  const phrases = phrasesOf(pattern.template)
  if (phrases.length === 0) return
  const term = sign && phrases.length > 1 ? `-(${phrases.join(' ')})` : sign + phrases.join(' ')
  const next = sign ? withTerm(query.peek(), term) : phrases.reduce(withTerm, query.peek())
  go({ q: next, view: sign ? 'patterns' : null })
}
