import {
  autocompletion,
  type CompletionContext,
  type CompletionResult,
  closeCompletion,
} from '@codemirror/autocomplete'
import { type Diagnostic, lintGutter, setDiagnostics } from '@codemirror/lint'
import { Compartment, EditorState, Prec } from '@codemirror/state'
import { EditorView, keymap } from '@codemirror/view'
import { useEffect, useRef } from 'react'
import { type Completion, UNFINISHED } from './completion.ts'
import { common, editing, type Language, languageOf, readOnly } from './extensions.ts'

export interface Problem {
  /** 1-based. */
  line: number
  message: string
  severity: 'error' | 'warning'
}

export interface CodeEditorProps {
  label: string
  language: Language
  value: string
  onChange?: (text: string) => void
  isReadOnly?: boolean
  /** Ctrl S. */
  onSave?: () => void
  /** Ctrl Enter. */
  onRun?: () => void
  problems?: readonly Problem[]
  /** Texts that complete a word, for example `ref('silver.orders')`. */
  completions?: readonly Completion[]
  onFocus?: () => void
  minHeight?: string
  maxHeight?: string
}

/** An editor of code. `value` replaces the text only when it differs, so the cursor stays while a person writes. */
export default function CodeEditor(props: CodeEditorProps) {
  const { label, language, value, isReadOnly = false, problems } = props
  const host = useRef<HTMLDivElement>(null)
  const view = useRef<EditorView>(null)
  const parts = useRef({ language: new Compartment() })
  // The view lives longer than one rendering, so it reads the present callbacks and lists from here.
  const latest = useRef(props)
  latest.current = props

  useEffect(() => {
    if (host.current === null) return
    // CodeMirror tells sources apart by identity, so the list is made once.
    const words = [{ autocomplete: completer(latest) }]
    const made = new EditorView({
      parent: host.current,
      state: EditorState.create({
        doc: value,
        extensions: [
          common(label),
          Prec.highest(keymap.of(keysOf(latest))),
          isReadOnly ? readOnly : editing,
          parts.current.language.of(languageOf(language)),
          autocompletion(),
          EditorState.languageData.of(() => words),
          lintGutter(),
          endsCompletion,
          EditorView.domEventHandlers({ focus: () => latest.current.onFocus?.() }),
          EditorView.updateListener.of((update) => {
            if (update.docChanged) latest.current.onChange?.(update.state.doc.toString())
          }),
        ],
      }),
    })
    view.current = made
    return () => made.destroy()
  }, [isReadOnly])

  useEffect(() => {
    const present = view.current?.state.doc.toString()
    if (present === undefined || present === value) return
    view.current?.dispatch({ changes: { from: 0, to: present.length, insert: value } })
  }, [value])

  useEffect(() => {
    const effects = parts.current.language.reconfigure(languageOf(language))
    view.current?.dispatch({ effects })
  }, [language])

  useEffect(() => {
    if (view.current === null) return
    const { state } = view.current
    view.current.dispatch(setDiagnostics(state, diagnosticsOf(state, problems ?? [])))
  }, [problems])

  const { minHeight = '200px', maxHeight = '60vh' } = props
  return <div ref={host} className="editor" style={{ minHeight, maxHeight }} />
}

/** A list of completions that is still asked for would open over a dialog that has taken the focus meanwhile. */
const endsCompletion = EditorView.domEventHandlers({
  blur: (_, view) => {
    setTimeout(() => closeCompletion(view))
  },
})

type Latest = React.RefObject<CodeEditorProps>

const keysOf = (latest: Latest) => [
  {
    key: 'Mod-s',
    preventDefault: true,
    run: () => {
      latest.current.onSave?.()
      return true
    },
  },
  {
    key: 'Mod-Enter',
    preventDefault: true,
    run: () => {
      latest.current.onRun?.()
      return true
    },
  },
]

/** Completes words with the texts of the page. */
const completer =
  (latest: Latest) =>
  (context: CompletionContext): CompletionResult | null => {
    const { completions = [] } = latest.current
    const word = context.matchBefore(UNFINISHED)
    if (completions.length === 0 || (word === null && !context.explicit)) return null
    // The editor has closed the quote and the bracket already; the completion brings its own.
    const after = context.state.sliceDoc(context.pos, context.pos + 2)
    const isOpen = word !== null && /^(?:ref|landing_zone)\(/.test(word.text)
    const closed = (isOpen ? /^['"]?\)|^['"]/ : word?.text.includes('"') ? /^"/ : /^(?!)/).exec(after)
    return {
      from: word?.from ?? context.pos,
      to: context.pos + (closed?.[0].length ?? 0),
      options: completions,
    }
  }

function diagnosticsOf(state: EditorState, problems: readonly Problem[]): Diagnostic[] {
  return problems.map(({ line, message, severity }) => {
    const { from, to } = state.doc.line(Math.min(Math.max(1, line), state.doc.lines))
    return { from, to, message, severity }
  })
}
