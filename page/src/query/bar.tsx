// The query bar: a plain input at first, which the editor replaces once the first result has been
// drawn, or as soon as the input is focused.
import type { RefObject } from 'preact'
import { useCallback, useEffect, useRef, useState } from 'preact/hooks'
import type { Problem } from '../api/client'
import { Icon } from '../ui/icon'
import { useKeys } from '../ui/keys'
import type { Editor } from './editor'

interface QueryBarProps {
  query: string
  problem: Problem | undefined
  onRun: (query: string) => void
  /** Label of the button. */
  action: string
  /** Whether the first response has arrived. */
  settled: boolean
}

const hint =
  window.innerWidth > 820
    ? 'Search: words, service:web, status:>=warn, @duration:>300ms, "a phrase", /regex/'
    : 'Search: error service:web'

export function QueryBar({ query, problem, onRun, action, settled }: QueryBarProps) {
  const host = useRef<HTMLDivElement>(null)
  const input = useRef<HTMLInputElement>(null)
  const text = useRef(query)
  const run = useRef(onRun)
  run.current = onRun
  const ask = useCallback(() => run.current(text.current), [])
  const [entered, enter] = useState(false)
  const wanted = useRef(false)
  wanted.current ||= settled || entered
  const editor = useEditor(wanted.current, host, input, text, ask)

  useKeys([
    {
      keys: '/',
      does: 'go to the query',
      group: 'Query and time',
      run: () => (editor.current ?? input.current)?.focus(),
    },
    { keys: 'Ctrl+Enter', does: 'run the query, from anywhere', group: 'Query and time', run: ask },
  ])

  useEffect(() => {
    text.current = query
    editor.current?.setText(query)
    if (input.current) input.current.value = query
  }, [query, editor])

  useEffect(() => editor.current?.showProblem(problem), [problem, editor.ready])

  return (
    <div class="query-bar">
      <Icon name="search" />
      <div ref={host} class="query-editor" hidden={!editor.ready} />
      {!editor.ready && (
        <input
          ref={input}
          class="query-plain"
          aria-label="Query"
          placeholder={hint}
          spellcheck={false}
          defaultValue={query}
          onFocus={() => enter(true)}
          onInput={(event) => {
            text.current = event.currentTarget.value
          }}
          onKeyDown={(event) => {
            if (event.key === 'Enter') ask()
            if (event.key === 'Escape') event.currentTarget.blur()
          }}
        />
      )}
      <button type="button" class="button primary small" onClick={ask}>
        {action}
      </button>
    </div>
  )
}

interface LoadedEditor {
  current: Editor | undefined
  ready: boolean
}

/** Replaces the plain input by the editor, keeping text, focus and cursor. */
function useEditor(
  wanted: boolean,
  host: RefObject<HTMLDivElement | null>,
  input: RefObject<HTMLInputElement | null>,
  text: { current: string },
  ask: () => void,
): LoadedEditor {
  const loaded = useRef<LoadedEditor>({ current: undefined, ready: false }).current
  const [, draw] = useState(false)
  useEffect(() => {
    if (!wanted) return
    let gone = false
    import('./editor').then(
      ({ createEditor }) => {
        if (gone || !host.current) return
        const focused = document.activeElement === input.current
        const cursor = input.current?.selectionStart ?? undefined
        const onChange = (next: string) => {
          text.current = next
        }
        const made = createEditor(host.current, { text: text.current, hint, onChange, onRun: ask })
        Object.assign(loaded, { current: made, ready: true })
        draw(true)
        if (focused) made.focus(cursor)
      },
      // It could not be fetched: the plain input has everything but highlighting and completion.
      () => undefined,
    )
    return () => {
      gone = true
      loaded.current?.destroy()
      loaded.current = undefined
    }
  }, [wanted, host, input, text, ask, loaded])
  return loaded
}
