import { useQuery } from '@tanstack/react-query'
import { lazy, Suspense, useEffect, useMemo, useState } from 'react'
import { api, ok } from '../../api/client.ts'
import { ApiError, messageOf } from '../../api/errors.ts'
import { queryClient, SLOW_MS } from '../../api/queries.ts'
import { API, accepted, authorizedFetch } from '../../api/request.ts'
import { Button, Segments } from '../../design/controls.tsx'
import { Loaded, Waiting } from '../../design/loaded.tsx'
import { Card, Notice } from '../../design/surfaces.tsx'
import { say } from '../../design/toasts.tsx'
import { type Named, type Pipeline, pipelineAt } from './named.ts'
import { Preview, usePreview } from './preview.tsx'

const CodeEditor = lazy(() => import('../../editor/code-editor.tsx'))
const CompareEditor = lazy(() => import('../../editor/compare-editor.tsx'))

const fileKey = (path: string) => ['files', path.slice(0, path.lastIndexOf('/') + 1), path.split('/').at(-1)]
const addressOf = (path: string) => new URL(`files/${path.split('/').map(encodeURIComponent).join('/')}`, API)

/** The text of a file, and the version that a later write must replace. */
async function readFile(path: string, version?: string): Promise<{ content: string; etag: string | null }> {
  const address = addressOf(path)
  if (version !== undefined) address.searchParams.set('version_id', version)
  const response = await authorizedFetch(address)
  if (response.status === 404) return { content: '', etag: null }
  const { content } = await (await accepted(response)).json()
  return { content, etag: response.headers.get('etag') }
}

/** Stores a draft. Throws ApiError 412 if another person has stored one since it was read. */
async function writeFile(path: string, content: string, etag: string | null): Promise<string | null> {
  const headers = {
    'content-type': 'application/json',
    ...(etag === null ? { 'if-none-match': '*' } : { 'if-match': etag }),
  }
  const body = JSON.stringify({ content })
  const response = await accepted(await authorizedFetch(addressOf(path), { method: 'PUT', headers, body }))
  return response.headers.get('etag')
}

/** The draft of a pipeline: its code and settings, with a preview beside it. */
export function Code({ at, pipeline }: { at: Named; pipeline: Pipeline }) {
  const source = pipeline.type === 'python' ? 'pipeline.py' : 'pipeline.sql'
  const [name, setName] = useState(source)
  const prefix = `${at.ns}/pipelines/${at.layer}/${at.name}/`
  const file = useQuery({
    queryKey: fileKey(prefix + name),
    queryFn: () => readFile(prefix + name),
    refetchOnWindowFocus: false,
    staleTime: Number.POSITIVE_INFINITY,
  })
  return (
    <div className="code-page">
      <Card
        title="Draft"
        actions={
          <Segments
            label="File"
            value={name}
            choices={[
              { value: source, label: source },
              { value: 'config.yaml', label: 'config.yaml' },
            ]}
            onChange={setName}
          />
        }
      >
        <Loaded query={file}>
          {(loaded) => (
            <DraftEditor
              key={name}
              at={at}
              path={prefix + name}
              loaded={loaded}
              pipeline={pipeline}
              isSource={name === source}
            />
          )}
        </Loaded>
      </Card>
    </div>
  )
}

/** Names that code can use: tables for completion, and `ref(...)`, `landing_zone(...)`. */
function useNames() {
  const { data: tables } = useQuery({
    queryKey: ['tables', 'schema'],
    queryFn: () => ok(api.schema.get({ query: {} })),
    refetchInterval: SLOW_MS,
  })
  const { data: zones } = useQuery({
    queryKey: ['zones', 'names'],
    queryFn: () => ok(api['landing-zones'].get({ query: {} })),
  })
  return useMemo(() => {
    const all = tables?.tables ?? []
    return {
      schema: Object.fromEntries(
        all.map(({ name, columns }) => [name, columns.map((column) => column.name)]),
      ),
      completions: [
        ...all.map((table) => ({
          label: `ref('${table.layer}.${table.name}')`,
          detail: `table of ${table.namespace}`,
        })),
        ...(zones?.zones ?? []).map((zone) => ({
          label: `landing_zone('${zone.name}')`,
          detail: zone.namespace,
        })),
        { label: 'this', detail: 'the table that the pipeline writes' },
        { label: 'is_incremental()', detail: 'true if the table has rows' },
        { label: 'watermark_value', detail: 'the largest value so far' },
      ],
    }
  }, [tables, zones])
}

interface StoredDraft {
  content: string
  etag: string | null
}

/** Texts that are not saved yet, each with the draft that it changes. They stay while the person looks at other pages. */
const unsaved = new Map<string, { text: string; base: StoredDraft }>()

function useDraft(path: string, loaded: StoredDraft) {
  const [text, setText] = useState(unsaved.get(path)?.text ?? loaded.content)
  const [stored, setStored] = useState(unsaved.get(path)?.base ?? loaded)
  useEffect(() => {
    if (text === stored.content) unsaved.delete(path)
    else unsaved.set(path, { text, base: stored })
  }, [path, text, stored])
  return { text, setText, stored, setStored }
}

function DraftEditor({
  at,
  path,
  loaded,
  pipeline,
  isSource,
}: {
  at: Named
  path: string
  loaded: StoredDraft
  pipeline: Pipeline
  isSource: boolean
}) {
  const { text, setText, stored, setStored } = useDraft(path, loaded)
  const [problem, setProblem] = useState<unknown>(null)
  const [isComparing, setComparing] = useState(false)
  const names = useNames()
  const preview = usePreview(at, isSource ? text : null)
  const isChanged = text !== stored.content
  useUnsavedWarning(isChanged)
  const save = async () => {
    try {
      const etag = await writeFile(path, text, stored.etag)
      setStored({ content: text, etag })
      // The editor starts from this entry again when the person comes back to the file.
      queryClient.setQueryData(fileKey(path), { content: text, etag })
      setProblem(null)
      say('The draft is saved')
      await queryClient.invalidateQueries({ queryKey: ['pipelines'] })
    } catch (error) {
      setProblem(error)
    }
  }
  const language = path.endsWith('.py') ? 'python' : path.endsWith('.yaml') ? 'yaml' : 'sql'
  return (
    <div className={isSource ? 'code-split' : 'stack'}>
      <div className="stack">
        <div className="row">
          <Button kind="primary" size="small" disabled={!isChanged} onClick={() => void save()}>
            Save draft
          </Button>
          {isSource && (
            <Button size="small" icon="runs" onClick={preview.run}>
              Preview
            </Button>
          )}
          <Button
            size="small"
            kind="quiet"
            aria-pressed={isComparing}
            onClick={() => setComparing(!isComparing)}
          >
            {isComparing ? 'Back to the code' : 'Compare with the published version'}
          </Button>
          <span className="muted" role="status">
            {isChanged ? 'not saved' : 'saved'}
          </span>
        </div>
        {problem !== null && <SaveProblem error={problem} path={path} />}
        <Suspense fallback={<Waiting lines={8} />}>
          {isComparing ? (
            <Comparison path={path} pipeline={pipeline} at={at} text={text} language={language} />
          ) : (
            <CodeEditor
              label={`Draft of ${path.split('/').at(-1)}`}
              language={language}
              value={text}
              onChange={setText}
              onSave={() => void save()}
              onRun={preview.run}
              problems={preview.problems}
              {...names}
              minHeight="320px"
            />
          )}
        </Suspense>
      </div>
      {isSource && <Preview {...preview} />}
    </div>
  )
}

function SaveProblem({ error, path }: { error: unknown; path: string }) {
  const isStale = error instanceof ApiError && error.status === 412
  if (!isStale) return <Notice tone="bad">Not saved: {messageOf(error)}</Notice>
  return (
    <Notice
      tone="warn"
      actions={
        <Button
          size="small"
          onClick={() => {
            unsaved.delete(path)
            void queryClient.resetQueries({ queryKey: ['files', path.slice(0, path.lastIndexOf('/') + 1)] })
          }}
        >
          Load the stored draft
        </Button>
      }
    >
      Another person has changed this draft since it was opened. Copy what you need, then load the stored
      draft.
    </Notice>
  )
}

/** The change of the draft against the published version. */
function Comparison({
  at,
  path,
  pipeline,
  text,
  language,
}: {
  at: Named
  path: string
  pipeline: Pipeline
  text: string
  language: 'sql' | 'python' | 'yaml'
}) {
  const number = pipeline.published_version
  const query = useQuery({
    queryKey: ['pipelines', at, 'published', number, path],
    queryFn: async () => {
      if (number === null) return ''
      const version = await ok(pipelineAt(at).versions({ number }).get())
      const id = (version.published_versions as Record<string, string>)[path]
      return id === undefined ? '' : (await readFile(path, id)).content
    },
  })
  return (
    <Loaded query={query}>
      {(before) =>
        before === text ? (
          <Notice>The draft equals the published version.</Notice>
        ) : (
          <CompareEditor
            label="Draft against the published version"
            language={language}
            before={before}
            after={text}
          />
        )
      }
    </Loaded>
  )
}

/** The browser asks before it leaves a page with a text that is not saved. */
function useUnsavedWarning(isChanged: boolean): void {
  useEffect(() => {
    if (!isChanged) return
    const ask = (event: BeforeUnloadEvent) => event.preventDefault()
    addEventListener('beforeunload', ask)
    return () => removeEventListener('beforeunload', ask)
  }, [isChanged])
}
