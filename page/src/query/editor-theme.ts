// The style of the editor, in the colors of the page; custom properties are inherited by its shadow
// root.
import { EditorView } from '@codemirror/view'

export const editorTheme = EditorView.theme({
  '&': { font: '13px/20px var(--mono)', color: 'var(--text)', background: 'transparent' },
  '&.cm-focused': { outline: 'none' },
  '.cm-scroller': { font: 'inherit', overflow: 'auto', maxHeight: '104px' },
  '.cm-content': { padding: '5px 0', caretColor: 'var(--text)' },
  '.cm-line': { padding: '0 2px' },
  '.cm-cursor': { borderLeftColor: 'var(--text)' },
  '.cm-placeholder': { color: 'var(--text-3)' },
  '&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground':
    {
      background: 'var(--accent-soft)',
    },
  '&.cm-focused .cm-matchingBracket': {
    background: 'var(--accent-soft)',
    outline: '1px solid var(--accent-line)',
  },
  '.cm-sign': {
    padding: '0 2px',
    borderRadius: '3px',
    background: 'var(--sunken)',
    boxShadow: 'inset 0 0 0 1px var(--line)',
    color: 'var(--text-3)',
    fontSize: '0.85em',
  },
  '.token-key': { color: 'var(--accent)' },
  '.token-operator': { color: 'var(--tone-text-critical)', fontWeight: '600' },
  '.token-comparison': { color: 'var(--tone-text-critical)' },
  '.token-quoted, .token-wildcard': { color: 'var(--good)' },
  '.token-number': { color: 'var(--tone-text-info)' },
  '.token-regex': { color: 'var(--caution)' },
  '.cm-lintRange-error': {
    backgroundImage: 'none',
    textDecoration: 'underline wavy var(--bad) 1.5px',
    textUnderlineOffset: '3px',
    paddingBottom: '0',
  },
  '.cm-tooltip': {
    border: '1px solid var(--line)',
    borderRadius: '8px',
    background: 'var(--surface)',
    color: 'var(--text)',
    boxShadow: 'var(--shadow)',
    overflow: 'hidden',
    zIndex: '40',
  },
  '.cm-tooltip.cm-tooltip-autocomplete > ul': {
    font: '12px/1.5 var(--mono)',
    maxHeight: '320px',
    minWidth: '280px',
    maxWidth: 'min(640px, 90vw)',
    padding: '4px',
  },
  '.cm-tooltip.cm-tooltip-autocomplete > ul > li': {
    display: 'flex',
    gap: '24px',
    padding: '3px 8px',
    borderRadius: '5px',
  },
  '.cm-tooltip-autocomplete ul li[aria-selected]': {
    background: 'var(--accent-soft)',
    color: 'var(--text)',
  },
  '.cm-completionLabel': { overflow: 'hidden', textOverflow: 'ellipsis' },
  '.cm-completionDetail': {
    marginLeft: 'auto',
    fontStyle: 'normal',
    color: 'var(--text-3)',
    fontFamily: 'var(--font)',
  },
  '.option-operator .cm-completionLabel': { color: 'var(--tone-text-critical)' },
  '.cm-diagnostic': {
    padding: '6px 10px',
    borderLeft: '3px solid var(--bad)',
    font: '12px/1.4 var(--font)',
  },
  '.cm-diagnostic-error': { borderLeft: '3px solid var(--bad)' },
})
