import { unifiedMergeView } from '@codemirror/merge'
import { EditorState } from '@codemirror/state'
import { EditorView } from '@codemirror/view'
import { useEffect, useRef } from 'react'
import { common, type Language, languageOf, readOnly } from './extensions.ts'

/** The change of a text, line by line: removed lines above added ones. */
export default function CompareEditor({
  label,
  language,
  before,
  after,
}: {
  label: string
  language: Language
  before: string
  after: string
}) {
  const host = useRef<HTMLDivElement>(null)
  useEffect(() => {
    if (host.current === null) return
    const view = new EditorView({
      parent: host.current,
      state: EditorState.create({
        doc: after,
        extensions: [
          common(label),
          readOnly,
          languageOf(language),
          unifiedMergeView({
            original: before,
            mergeControls: false,
            collapseUnchanged: { margin: 3, minSize: 8 },
          }),
        ],
      }),
    })
    return () => view.destroy()
  }, [label, language, before, after])
  return <div ref={host} className="editor" />
}
