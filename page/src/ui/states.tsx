// What is shown in place of a result: nothing found, an error, loading. Each says what to do next.
import type { ComponentChildren } from 'preact'
import type { Problem } from '../api/client'
import type { Meta } from '../api/schema'
import { suggestionOf } from '../query/check'
import { Button } from './button'
import { LogText } from './log-text'
import { ScrollBox } from './scroll-box'

interface EmptyProps {
  title: string
  children?: ComponentChildren
  actions?: ComponentChildren
}

export function Empty({ title, children, actions }: EmptyProps) {
  return (
    <div class="state">
      <h2>
        <LogText text={title} />
      </h2>
      {children}
      {actions && <div class="actions">{actions}</div>}
    </div>
  )
}

interface ProblemProps {
  problem: Problem
  /** Absent where the page asks again by itself. */
  again?: () => void
  /** Runs a corrected query, if weir suggests one. */
  suggest?: (query: string) => void
}

export function ProblemView({ problem, again, suggest }: ProblemProps) {
  const { title, detail } = problem.document
  const suggestion = suggestionOf(problem)
  const apply = suggest && suggestion ? () => suggest(suggestion) : undefined
  return (
    <div class="state" role="alert">
      <h2>
        <LogText text={headline(problem)} />
      </h2>
      <p>{advice(problem)}</p>
      {problem.kind === 'refused' && detail && detail !== title && (
        <ScrollBox className="state-detail" label="Details">
          <pre>
            <LogText text={detail} />
          </pre>
        </ScrollBox>
      )}
      <div class="actions">
        {apply && (
          <Button kind="primary" onClick={apply}>
            Use <LogText text={suggestion ?? ''} />
          </Button>
        )}
        {again && (
          <Button icon="refresh" onClick={again}>
            Try again
          </Button>
        )}
      </div>
    </div>
  )
}

function headline(problem: Problem): string {
  if (problem.kind === 'unreachable') return 'weir is not responding'
  if (problem.kind === 'busy') return 'Too many queries'
  return sentence(problem.document.title)
}

function advice(problem: Problem): string {
  const { expected, retry_after_seconds: wait, status } = problem.document
  switch (problem.kind) {
    case 'unreachable':
      return 'Is it running? The page retries automatically; your input is kept.'
    case 'busy':
      return wait ? `Try again in ${wait} s.` : 'Try again in a moment.'
    case 'refused':
      if (status === 409)
        return 'Only stored records can be searched. The live tail and the pipeline work without the store.'
      if (status === 403) return 'Another token is needed for this; sign out to use it.'
      if (status === 404) return 'It may have been deleted, or removed by retention.'
      return expected ? `Expected: ${expected}.` : 'The query is not valid.'
    case 'failed':
      return 'weir could not respond. Its log has the reason.'
  }
}

/** Marks a result as incomplete, and says why. */
export function Partial({ meta }: { meta: Meta | undefined }) {
  if (!meta?.weir.partial) return null
  const why = (meta.warnings ?? []).map((warning) => warning.title).join('; ')
  return (
    <span class="badge caution" title={why}>
      incomplete
    </span>
  )
}

export function sentence(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1)
}

export function Skeleton({ lines, label }: { lines: number; label: string }) {
  const widths = ['92%', '78%', '85%', '64%', '88%', '71%']
  return (
    <div class="skeletons" role="status" aria-label={label}>
      {Array.from({ length: lines }, (_, index) => (
        <div
          key={index}
          class="skeleton"
          style={{ width: widths[index % widths.length], height: '14px' }}
        />
      ))}
    </div>
  )
}
