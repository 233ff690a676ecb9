import { useCallback, useEffect, useMemo, useRef, useState } from 'react'
import { ApiError, messageOf } from '../../api/errors.ts'
import { executeQuery } from '../../api/query.ts'
import { Button, Select, TextField } from '../../design/controls.tsx'
import { counted, duration } from '../../design/format.ts'
import { Waiting } from '../../design/loaded.tsx'
import { Card, Empty, Notice, Page } from '../../design/surfaces.tsx'
import CodeEditor, { type Problem } from '../../editor/code-editor.tsx'
import { type Completion, quoted } from '../../editor/completion.ts'
import { useColumns, useTables } from '../../editor/tables.ts'
import { BranchSelect } from '../../fields/branch-select.tsx'
import { useFilters } from '../../shell/filters.ts'
import { Remembered, remember } from './remembered.tsx'
import { isPlan, type Result, Results } from './results.tsx'

const LIMITS = ['1000', '10000', '100000']
/** The text that the person has written. It stays while they look at other pages. */
let written = 'select 1 as one'
/** Tables of this namespace need no namespace in a query. */
const DEFAULT_NAMESPACE = 'default'

interface Outcome {
  sql: string
  result: Result | null
  error: unknown
  isBusy: boolean
}

/** SQL on main, on a branch or on a past commit. Queries only read. */
export default function QueryPage() {
  const [filters, change] = useFilters('/query')
  const { branch = '', as_of: asOf = '', limit = '1000' } = filters
  const [sql, setText] = useState(filters.sql ?? written)
  const setSql = (text: string) => {
    written = text
    setText(text)
    // Otherwise "back" to this page would show the text of the link instead of the change.
    if (filters.sql !== undefined) change({ sql: '' })
  }
  const { outcome, execute, cancel } = useExecution({ branch, asOf, limit })
  const run = () => execute(sql)
  const explain = () => execute(`explain ${sql}`)
  const [isWriting, setWriting] = useState(false)
  const completions = useNames(branch, sql, isWriting)
  const problems = useMemo(() => problemsOf(outcome.error), [outcome.error])
  return (
    <Page title="Query" subtitle="A query sees one commit of the lake." isWide>
      <div className="query-page">
        <div className="stack">
          <Card
            isFlush
            actions={
              <>
                <Button kind="primary" size="small" icon="runs" disabled={outcome.isBusy} onClick={run}>
                  Execute
                </Button>
                {outcome.isBusy ? (
                  <Button size="small" onClick={cancel}>
                    Cancel
                  </Button>
                ) : (
                  <Button size="small" onClick={explain}>
                    Explain
                  </Button>
                )}
                <BranchSelect value={branch} onChange={(value) => change({ branch: value })} />
                <Select
                  label="Most rows"
                  isLabelShown={false}
                  value={limit}
                  choices={LIMITS.map((value) => ({
                    value,
                    label: `${Number(value).toLocaleString('en')} rows`,
                  }))}
                  onChange={(value) => change({ limit: value })}
                />
                <div className="as-of">
                  <TextField
                    label="As of (commit, tag or time)"
                    placeholder="now"
                    value={asOf}
                    onChange={(event) => change({ as_of: event.target.value })}
                  />
                </div>
              </>
            }
          >
            <CodeEditor
              label="SQL of the query"
              language="sql"
              value={sql}
              onChange={setSql}
              onRun={run}
              problems={problems}
              completions={completions}
              onFocus={() => setWriting(true)}
              minHeight="160px"
              maxHeight="40vh"
            />
          </Card>
          <Shown outcome={outcome} />
        </div>
        <Remembered sql={sql} onOpen={setSql} />
      </div>
    </Page>
  )
}

function Shown({ outcome: { result, error, isBusy, sql } }: { outcome: Outcome }) {
  if (error !== null) return <Notice tone="bad">{messageOf(error)}</Notice>
  if (result === null)
    return (
      <Card>
        {isBusy ? <Waiting lines={8} /> : <Empty icon="query" title="Execute a query to see rows here" />}
      </Card>
    )
  return (
    <Card
      title={isPlan(result.columns) ? 'Plan' : counted(result.rows.length, 'row')}
      actions={
        <span className="muted" role="status">
          {isBusy ? 'working…' : duration(result.duration_ms)}
          {result.truncated && '; there are more rows'}
        </span>
      }
    >
      <Results key={sql} result={result} />
    </Card>
  )
}

/** Executes one query at a time. A new one ends the one before. */
function useExecution({ branch, asOf, limit }: { branch: string; asOf: string; limit: string }) {
  const [outcome, setOutcome] = useState<Outcome>({ sql: '', result: null, error: null, isBusy: false })
  const running = useRef<AbortController | null>(null)
  const execute = useCallback(
    (sql: string) => {
      running.current?.abort()
      const own = new AbortController()
      running.current = own
      setOutcome((before) => ({ ...before, isBusy: true }))
      const at = /^\d+$/.test(asOf) ? Number(asOf) : asOf
      const body = { sql, limit: Number(limit), ...(branch && { branch }), ...(asOf && { as_of: at }) }
      executeQuery(body, own.signal)
        .then((result) => {
          remember(sql)
          if (running.current === own)
            setOutcome({ sql, result: result as Result, error: null, isBusy: false })
        })
        .catch((error: unknown) => {
          if (own.signal.aborted) setOutcome((before) => ({ ...before, isBusy: running.current !== own }))
          else if (running.current === own) setOutcome({ sql, result: null, error, isBusy: false })
        })
    },
    [branch, asOf, limit],
  )
  useEffect(() => () => running.current?.abort(), [])
  const cancel = () => {
    running.current?.abort()
    setOutcome((before) => ({ ...before, isBusy: false }))
  }
  return { outcome, execute, cancel }
}

/** Names that complete a query: tables, and the columns of tables that it reads. */
function useNames(branch: string, sql: string, isWriting: boolean): Completion[] {
  const tables = useTables(isWriting, branch)
  const columns = useColumns(sql, DEFAULT_NAMESPACE, tables)
  const names = useMemo(
    () =>
      tables.map(({ namespace, layer, name }) => ({
        label: `${namespace === DEFAULT_NAMESPACE ? '' : `${quoted(namespace)}.`}${layer}.${quoted(name)}`,
        detail: `table of ${namespace}`,
      })),
    [tables],
  )
  return useMemo(() => [...columns, ...names], [columns, names])
}

/** The line that the service names, marked in the editor. */
function problemsOf(error: unknown): readonly Problem[] {
  if (!(error instanceof ApiError) || error.status !== 400) return []
  const [, line] = /\bline (\d+)/i.exec(error.message) ?? []
  return [{ line: Number(line ?? 1), message: error.message, severity: 'error' }]
}
