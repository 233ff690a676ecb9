// The parts of every editor: keys, highlighting in the colours of the page, search.
import { closeBrackets, closeBracketsKeymap, completionKeymap } from '@codemirror/autocomplete'
import { defaultKeymap, history, historyKeymap, indentWithTab } from '@codemirror/commands'
import { python } from '@codemirror/lang-python'
import { PostgreSQL, sql } from '@codemirror/lang-sql'
import { yaml } from '@codemirror/lang-yaml'
import {
  bracketMatching,
  HighlightStyle,
  indentOnInput,
  indentUnit,
  syntaxHighlighting,
} from '@codemirror/language'
import { lintKeymap } from '@codemirror/lint'
import { highlightSelectionMatches, search, searchKeymap } from '@codemirror/search'
import { EditorState, type Extension } from '@codemirror/state'
import {
  drawSelection,
  EditorView,
  highlightActiveLine,
  highlightActiveLineGutter,
  keymap,
  lineNumbers,
} from '@codemirror/view'
import { tags } from '@lezer/highlight'
import { styleNonce } from '../shell/style-nonce.ts'

export type Language = 'sql' | 'python' | 'yaml'

export function languageOf(language: Language): Extension {
  if (language === 'python') return python()
  if (language === 'yaml') return yaml()
  return sql({ dialect: PostgreSQL, upperCaseKeywords: false })
}

const colours = HighlightStyle.define([
  { tag: tags.keyword, color: 'var(--accent-strong)', fontWeight: '600' },
  { tag: [tags.string, tags.special(tags.string)], color: 'var(--good)' },
  { tag: [tags.number, tags.bool, tags.null], color: 'var(--review)' },
  { tag: [tags.comment, tags.meta], color: 'var(--muted)', fontStyle: 'italic' },
  { tag: [tags.typeName, tags.className, tags.definition(tags.variableName)], color: 'var(--busy)' },
  { tag: [tags.propertyName, tags.attributeName], color: 'var(--busy)' },
  { tag: tags.invalid, color: 'var(--bad)' },
])

const theme = EditorView.theme({
  '&': { backgroundColor: 'var(--surface)', color: 'var(--text)', fontSize: 'var(--text-s)' },
  '.cm-scroller': { fontFamily: 'var(--mono)', lineHeight: '1.55' },
  '.cm-gutters': { backgroundColor: 'var(--sunken)', color: 'var(--muted)', border: '0' },
  '.cm-activeLine': { backgroundColor: 'color-mix(in srgb, var(--accent-soft) 45%, transparent)' },
  '.cm-activeLineGutter': { backgroundColor: 'var(--accent-soft)', color: 'var(--text)' },
  '.cm-cursor': { borderLeftColor: 'var(--text)' },
  '&.cm-focused': { outline: '2px solid var(--focus)', outlineOffset: '-2px' },
  '&.cm-focused .cm-selectionBackground, .cm-selectionBackground, ::selection': {
    backgroundColor: 'color-mix(in srgb, var(--focus) 30%, transparent) !important',
  },
  '.cm-tooltip': {
    backgroundColor: 'var(--raised)',
    color: 'var(--text)',
    border: '1px solid var(--line)',
    borderRadius: 'var(--radius)',
  },
  '.cm-tooltip-autocomplete > ul > li[aria-selected]': {
    backgroundColor: 'var(--accent-soft)',
    color: 'var(--text)',
  },
  '.cm-panels': { backgroundColor: 'var(--sunken)', color: 'var(--text)' },
  '.cm-insertedLine, .cm-changedLine': { backgroundColor: 'var(--added) !important' },
  '.cm-deletedChunk': { backgroundColor: 'var(--removed) !important' },
  '.cm-changedText': { background: 'none !important', textDecoration: 'underline' },
})

/** Extensions of editors and comparisons. */
export const common = (label: string): Extension => [
  EditorView.cspNonce.of(styleNonce()),
  theme,
  syntaxHighlighting(colours),
  lineNumbers(),
  drawSelection(),
  EditorView.contentAttributes.of({ 'aria-label': label, tabindex: '0' }),
]

/** Extensions that make a text editable. Escape and then Tab leave the editor, as CodeMirror documents it. */
export const editing: Extension = [
  highlightActiveLine(),
  highlightActiveLineGutter(),
  highlightSelectionMatches(),
  history(),
  indentOnInput(),
  bracketMatching(),
  closeBrackets(),
  indentUnit.of('  '),
  search({ top: true }),
  keymap.of([
    ...closeBracketsKeymap,
    ...completionKeymap,
    ...defaultKeymap,
    ...searchKeymap,
    ...historyKeymap,
    ...lintKeymap,
    indentWithTab,
  ]),
]

export const readOnly: Extension = [EditorState.readOnly.of(true), EditorView.editable.of(true)]
