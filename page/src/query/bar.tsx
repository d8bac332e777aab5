// The query bar: a plain field at once, the editor in its place as soon as it has come.
import { useEffect, useRef, useState } from 'preact/hooks'
import type { Problem } from '../api/client'
import { Icon } from '../ui/icon'
import { useKeys } from '../ui/keys'
import type { Editor } from './editor'

interface QueryBarProps {
  query: string
  problem: Problem | undefined
  onRun: (query: string) => void
  /** What the button says. */
  action: string
}

const hint =
  window.innerWidth > 820
    ? 'Search: words, service:web, status:>=warn, @duration:>300ms, "a phrase", /regex/'
    : 'Search: error service:web'

export function QueryBar({ query, problem, onRun, action }: QueryBarProps) {
  const host = useRef<HTMLDivElement>(null)
  const input = useRef<HTMLInputElement>(null)
  const editor = useRef<Editor | undefined>(undefined)
  const [ready, setReady] = useState(false)
  const text = useRef(query)
  const run = useRef(onRun)
  run.current = onRun

  function focus() {
    if (editor.current) editor.current.focus()
    else input.current?.focus()
  }

  useKeys([
    { keys: '/', does: 'go to the query', group: 'Query and time', run: focus },
    {
      keys: 'Ctrl+Enter',
      does: 'ask, from anywhere',
      group: 'Query and time',
      run: () => run.current(text.current),
    },
  ])

  useEffect(() => {
    let gone = false
    import('./editor').then(({ createEditor }) => {
      if (gone || !host.current) return
      const focused = document.activeElement === input.current
      const cursor = input.current?.selectionStart ?? undefined
      editor.current = createEditor(host.current, {
        text: text.current,
        hint,
        onChange: (next) => {
          text.current = next
        },
        onRun: () => run.current(text.current),
      })
      setReady(true)
      if (focused) editor.current.focus(cursor)
    })
    return () => {
      gone = true
      editor.current?.destroy()
      editor.current = undefined
    }
  }, [])

  useEffect(() => {
    text.current = query
    editor.current?.setText(query)
    if (input.current) input.current.value = query
  }, [query])

  useEffect(() => editor.current?.showProblem(problem), [problem, ready])

  return (
    <div class="query-bar">
      <Icon name="search" />
      <div ref={host} class="query-editor" hidden={!ready} />
      {!ready && (
        <input
          ref={input}
          class="query-plain"
          aria-label="Query"
          placeholder={hint}
          spellcheck={false}
          defaultValue={query}
          onInput={(event) => {
            text.current = event.currentTarget.value
          }}
          onKeyDown={(event) => {
            if (event.key === 'Enter') run.current(text.current)
            if (event.key === 'Escape') event.currentTarget.blur()
          }}
        />
      )}
      <button type="button" class="button primary small" onClick={() => run.current(text.current)}>
        {action}
      </button>
    </div>
  )
}
