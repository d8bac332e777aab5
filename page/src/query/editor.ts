// The query editor: CodeMirror with highlighting, completion and error marks. It is in a shadow
// root, where its styles are constructed style sheets and need no exception in the security policy.
import {
  acceptCompletion,
  autocompletion,
  type Completion,
  type CompletionContext,
  type CompletionResult,
  closeBrackets,
  closeCompletion,
  completionStatus,
  startCompletion,
} from '@codemirror/autocomplete'
import { defaultKeymap, history, historyKeymap } from '@codemirror/commands'
import { bracketMatching } from '@codemirror/language'
import { type Diagnostic, linter, setDiagnostics } from '@codemirror/lint'
import { EditorState, Prec, type Range, RangeSetBuilder, Transaction } from '@codemirror/state'
import {
  Decoration,
  type DecorationSet,
  drawSelection,
  EditorView,
  highlightSpecialChars,
  keymap,
  placeholder,
  ViewPlugin,
  type ViewUpdate,
} from '@codemirror/view'
import type { Problem } from '../api/client'
import { question } from '../explore/question'
import { plainText, unseenCharacter } from '../format/log-text'
import { checkQuery, suggestionOf } from './check'
import { placeAt, recentQueries, type Suggestion, suggest } from './complete'
import { editorTheme } from './editor-theme'
import { scan } from './scan'
import { offsetOfByte } from './span'

export interface Editor {
  focus: (cursor?: number) => void
  setText: (text: string) => void
  showProblem: (problem: Problem | undefined) => void
  destroy: () => void
}

interface EditorOptions {
  text: string
  hint: string
  onChange: (text: string) => void
  onRun: () => void
}

export function createEditor(host: HTMLElement, options: EditorOptions): Editor {
  const root = host.shadowRoot ?? host.attachShadow({ mode: 'open' })
  const view = new EditorView({
    root,
    parent: root,
    state: EditorState.create({ doc: options.text, extensions: extensionsOf(options) }),
  })
  return {
    focus: (cursor) => {
      view.focus()
      const anchor = cursor ?? view.state.doc.length
      view.dispatch({ selection: { anchor: Math.min(anchor, view.state.doc.length) } })
    },
    setText: (text) => replaceText(view, text),
    showProblem: (problem) => {
      const found = problem ? diagnosticsOf(view.state.doc.toString(), problem) : []
      view.dispatch(setDiagnostics(view.state, found))
    },
    destroy: () => view.destroy(),
  }
}

function replaceText(view: EditorView, text: string): void {
  if (view.state.doc.toString() === text) return
  view.dispatch({
    changes: { from: 0, to: view.state.doc.length, insert: text },
    selection: { anchor: text.length },
    annotations: Transaction.userEvent.of('set'),
  })
}

function extensionsOf({ hint, onChange, onRun }: EditorOptions) {
  const run = (view: EditorView) => {
    closeCompletion(view)
    onRun()
    return true
  }
  const leave = (view: EditorView) => {
    if (completionStatus(view.state)) return false
    view.contentDOM.blur()
    return true
  }
  return [
    editorTheme,
    history(),
    drawSelection(),
    highlightSpecialChars({ specialChars: unseenCharacter, render: signElement }),
    bracketMatching(),
    closeBrackets(),
    placeholder(hint),
    EditorView.lineWrapping,
    EditorView.contentAttributes.of({ 'aria-label': 'Query', spellcheck: 'false' }),
    oneLine,
    EditorView.domEventHandlers({ beforeinput: typeOver }),
    colors,
    autocompletion({
      override: [complete],
      // Only a selected option is accepted, so keys that are pressed right after the list has opened
      // are meant for it. With the default delay, Arrow Down and Enter ran the incomplete query.
      selectOnOpen: false,
      interactionDelay: 0,
      icons: false,
      closeOnBlur: true,
      optionClass: (option) => `option-${option.type ?? ''}`,
    }),
    linter(async (view) => lint(view.state.doc.toString()), { delay: 350 }),
    Prec.high(keymap.of([{ key: 'Tab', run: acceptCompletion }])),
    keymap.of([
      { key: 'Enter', run },
      { key: 'ArrowDown', run: suggestInEmpty },
      { key: 'Mod-Enter', run },
      { key: 'Escape', run: leave },
      ...historyKeymap,
      ...defaultKeymap,
    ]),
    EditorView.updateListener.of((update) => {
      if (update.docChanged) onChange(update.state.doc.toString())
    }),
  ]
}

/**
 * Types a character over the selection. Browsers would give it the color of the replaced text as an
 * inline style, which the security policy forbids and reports.
 */
function typeOver(event: InputEvent, view: EditorView): boolean {
  const { data, inputType, isComposing } = event
  const isPlain = inputType === 'insertText' && !isComposing && /^[\w@]$/.test(data ?? '')
  if (!isPlain || view.state.selection.main.empty) return false
  event.preventDefault()
  view.dispatch({ ...view.state.replaceSelection(data ?? ''), userEvent: 'input.type' })
  return true
}

/** Opens the completion in an empty query, which lists recent ones. */
function suggestInEmpty(view: EditorView): boolean {
  return (
    view.state.doc.length === 0 && completionStatus(view.state) === null && startCompletion(view)
  )
}

/** An invisible character as a sign, as in lists of records. */
function signElement(code: number): HTMLElement {
  const sign = document.createElement('span')
  sign.className = 'cm-sign'
  sign.textContent = plainText(String.fromCodePoint(code))
  return sign
}

/** A query is a single line: pasted line feeds become spaces. */
const oneLine = EditorState.transactionFilter.of((transaction) => {
  if (!transaction.docChanged || transaction.newDoc.lines === 1) return transaction
  const text = transaction.newDoc.toString().replace(/\s*\n\s*/g, ' ')
  return {
    changes: { from: 0, to: transaction.startState.doc.length, insert: text },
    selection: { anchor: text.length },
  }
})

const colors = ViewPlugin.fromClass(
  class {
    decorations: DecorationSet

    constructor(view: EditorView) {
      this.decorations = colored(view.state.doc.toString())
    }

    update(update: ViewUpdate) {
      if (update.docChanged) this.decorations = colored(update.state.doc.toString())
    }
  },
  { decorations: (plugin) => plugin.decorations },
)

function colored(text: string): DecorationSet {
  const builder = new RangeSetBuilder<Decoration>()
  for (const range of rangesOf(text)) builder.add(range.from, range.to, range.value)
  return builder.finish()
}

function rangesOf(text: string): Array<Range<Decoration>> {
  return scan(text)
    .filter((token) => token.kind !== 'space' && token.kind !== 'text')
    .map((token) => Decoration.mark({ class: `token-${token.kind}` }).range(token.from, token.to))
}

async function complete(context: CompletionContext): Promise<CompletionResult | null> {
  const text = context.state.doc.toString()
  const place = placeAt(text, context.pos)
  if (place.kind === 'field' && !place.prefix && !context.explicit && text !== '') return null
  const abort = new AbortController()
  context.addEventListener('abort', () => abort.abort(), { onDocChange: true })
  try {
    const recent = text === '' ? await recentQueries() : []
    const found = [...recent, ...(await suggest(place, question.peek(), text, abort.signal))]
    if (found.length === 0) return null
    return { from: place.from, to: place.to, options: found.map(optionOf), filter: false }
  } catch {
    return null
  }
}

function optionOf(suggestion: Suggestion): Completion {
  return {
    label: plainText(suggestion.label),
    detail: suggestion.detail,
    type: suggestion.kind,
    apply: (view, _completion, from, to) => {
      view.dispatch({
        changes: { from, to, insert: suggestion.text },
        selection: { anchor: from + (suggestion.cursor ?? suggestion.text.length) },
        annotations: Transaction.userEvent.of('input.complete'),
      })
      if (suggestion.kind === 'field' || suggestion.cursor) startCompletion(view)
    },
  }
}

/** A query that merely ends too early is not marked while it is being typed. */
async function lint(text: string): Promise<Diagnostic[]> {
  const problem = await checkQuery(text)
  const start = problem?.document.span?.start
  if (!problem || start === undefined || offsetOfByte(text, start) >= text.length) return []
  return diagnosticsOf(text, problem)
}

function diagnosticsOf(text: string, problem: Problem): Diagnostic[] {
  const { span, title, expected } = problem.document
  const suggestion = suggestionOf(problem)
  if (!span) return []
  const from = Math.min(offsetOfByte(text, span.start), text.length)
  const to = Math.min(Math.max(offsetOfByte(text, span.end), from + 1), text.length)
  const message = [
    title,
    expected && `expected ${expected}`,
    suggestion && `did you mean ${suggestion}?`,
  ]
  const start = from === text.length ? Math.max(0, from - 1) : from
  return [{ from: start, to, severity: 'error', message: message.filter(Boolean).join('; ') }]
}
