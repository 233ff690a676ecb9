import { useCallback, useEffect, useRef, useState } from 'react'
import { messageOf } from '../../api/errors.ts'
import { type Named, type PreviewResult, previewDraft } from '../../api/pipelines.ts'
import { DataGrid } from '../../design/data-grid.tsx'
import { bytes, counted, duration } from '../../design/format.ts'
import { Waiting } from '../../design/loaded.tsx'
import { Card, Empty, Notice } from '../../design/surfaces.tsx'
import type { Problem } from '../../editor/code-editor.tsx'

/** A pause in writing after which the text is checked. */
const PAUSE_MS = 900

interface PreviewState {
  result: PreviewResult | null
  error: unknown
  isBusy: boolean
  problems: readonly Problem[]
  run: () => void
}

const NONE: readonly Problem[] = []

/**
 * The preview of a text: if `isLive`, it runs when the person pauses, so faults appear while typing. Python may be slow or call
 * other services, so a person starts it. Null: there is nothing to preview. A later text overtakes an earlier one.
 */
export function usePreview(at: Named, code: string | null, isLive: boolean): PreviewState {
  const [result, setResult] = useState<PreviewResult | null>(null)
  const [error, setError] = useState<unknown>(null)
  const [isBusy, setBusy] = useState(false)
  const [problems, setProblems] = useState(NONE)
  const running = useRef<AbortController>(null)
  const { ns, layer, name } = at
  const run = useCallback(() => {
    if (code === null) return
    running.current?.abort()
    const own = new AbortController()
    running.current = own
    setBusy(true)
    previewDraft({ ns, layer, name }, code, own.signal)
      .then((found) => {
        if (own.signal.aborted) return
        setResult(found)
        setError(null)
        setProblems(NONE)
      })
      .catch((reason: unknown) => {
        if (own.signal.aborted) return
        setError(reason)
        setProblems([{ line: lineOf(messageOf(reason)), message: messageOf(reason), severity: 'error' }])
      })
      .finally(() => running.current === own && setBusy(false))
  }, [ns, layer, name, code])
  useEffect(() => {
    if (!isLive || code === null || code.trim() === '') return
    const timer = setTimeout(run, PAUSE_MS)
    return () => clearTimeout(timer)
  }, [code, run, isLive])
  useEffect(() => () => running.current?.abort(), [])
  return { result, error, isBusy, problems, run }
}

/** The line that a fault of the service names, for example `pipeline.sql:3: ...` or `line 3`. */
const lineOf = (message: string) => Number(/(?:\.(?:sql|py):|\bline )(\d+)/i.exec(message)?.[1] ?? 1)

/** The rows that the draft gives now. Nothing is written. */
export function Preview({ result, error, isBusy }: PreviewState) {
  return (
    <Card title="Preview" actions={<span role="status">{isBusy ? 'working…' : ''}</span>}>
      <div className="stack">
        {error !== null && <Notice tone="bad">{messageOf(error)}</Notice>}
        {result?.warnings.map((warning) => (
          <Notice tone="warn" key={warning}>
            {warning}
          </Notice>
        ))}
        {result === null ? (
          error === null &&
          (isBusy ? (
            <Waiting lines={6} />
          ) : (
            <Empty icon="query" title="Nothing to show yet">
              Preview, or Ctrl Enter in the code, executes the draft. Nothing is written.
            </Empty>
          ))
        ) : (
          <>
            <p className="muted">
              {counted(result.total_row_count, 'row')}, {bytes(result.memory_peak_bytes)} of memory,{' '}
              {duration(result.phases.reduce((sum, phase) => sum + phase.duration_ms, 0))}
            </p>
            <DataGrid
              label="Rows of the preview"
              columns={result.columns}
              rows={result.rows as unknown[][]}
              height="46vh"
            />
            <details>
              <summary>Plan</summary>
              <pre className="plan" tabIndex={0} aria-label="Plan of the query">
                {result.explain_output}
              </pre>
            </details>
          </>
        )}
      </div>
    </Card>
  )
}
