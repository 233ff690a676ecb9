import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { ApiError, messageOf } from '../../api/errors.ts'
import type { StoredFile } from '../../api/files.ts'
import { type Named, type Pipeline, publishedTextQuery, sourceOf } from '../../api/pipelines.ts'
import { Button, Segments } from '../../design/controls.tsx'
import { Loaded } from '../../design/loaded.tsx'
import { Notice } from '../../design/surfaces.tsx'
import CodeEditor from '../../editor/code-editor.tsx'
import CompareEditor from '../../editor/compare-editor.tsx'
import { lazyPart } from '../../shell/lazy-part.tsx'
import { type Draft, useDraft } from './draft.ts'
import { languageOf } from './language.ts'
import { useNames } from './names.ts'
import { Preview, usePreview } from './preview.tsx'

const ConfigForm = lazyPart(() => import('./config-form.tsx'))

type View = 'form' | 'text' | 'compare'

interface FileProps {
  at: Named
  pipeline: Pipeline
  path: string
  /** Relative to the folder of the pipeline. */
  name: string
}

/** One file of a draft. The source has a preview beside it, and the configuration is a form. */
export function DraftEditor({ loaded, ...file }: FileProps & { loaded: StoredFile }) {
  const { at, pipeline, path, name } = file
  const draft = useDraft(path, loaded)
  const isSource = name === sourceOf(pipeline)
  const isConfig = name === 'config.yaml'
  const [view, setView] = useState<View>(isConfig ? 'form' : 'text')
  const preview = usePreview(at, isSource ? draft.text : null, pipeline.type === 'sql')
  return (
    <div className={isSource ? 'code-split' : 'stack'}>
      <div className="stack">
        <div className="row">
          <Button kind="primary" size="small" disabled={!draft.isChanged} onClick={() => void draft.save()}>
            Save draft
          </Button>
          {isSource && (
            <Button size="small" icon="runs" onClick={preview.run}>
              Preview
            </Button>
          )}
          <Segments
            label="View"
            value={view}
            choices={[
              ...(isConfig ? [{ value: 'form' as const, label: 'Form' }] : []),
              { value: 'text', label: isConfig ? 'YAML' : 'Code' },
              { value: 'compare', label: 'Compare with the published version' },
            ]}
            onChange={setView}
          />
          <span className="muted" role="status">
            {draft.isChanged ? 'not saved' : 'saved'}
          </span>
        </div>
        {draft.problem !== null && <SaveProblem draft={draft} />}
        {view === 'compare' && <Comparison {...file} text={draft.text} />}
        {view === 'form' && <ConfigForm at={at} pipeline={pipeline} draft={draft} />}
        {view === 'text' && <Text {...file} draft={draft} preview={preview} />}
      </div>
      {isSource && <Preview {...preview} />}
    </div>
  )
}

function Text({
  at,
  name,
  draft,
  preview,
}: FileProps & { draft: Draft; preview: ReturnType<typeof usePreview> }) {
  const [isWriting, setWriting] = useState(false)
  const completions = useNames(at.ns, draft.text, isWriting)
  return (
    <CodeEditor
      label={`Draft of ${name}`}
      language={languageOf(name)}
      value={draft.text}
      onChange={draft.setText}
      onSave={() => void draft.save()}
      onRun={preview.run}
      problems={preview.problems}
      completions={completions}
      onFocus={() => setWriting(true)}
      minHeight="320px"
    />
  )
}

function SaveProblem({ draft: { problem, reload } }: { draft: Draft }) {
  const isStale = problem instanceof ApiError && problem.status === 412
  if (!isStale) return <Notice tone="bad">Not saved: {messageOf(problem)}</Notice>
  return (
    <Notice
      tone="warn"
      actions={
        <Button size="small" onClick={reload}>
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
function Comparison({ at, path, name, pipeline, text }: FileProps & { text: string }) {
  const query = useQuery(publishedTextQuery(at, pipeline.published_version, path))
  return (
    <Loaded query={query}>
      {(before) =>
        before === text ? (
          <Notice>The draft equals the published version.</Notice>
        ) : (
          <CompareEditor
            label="Draft against the published version"
            language={languageOf(name)}
            before={before}
            after={text}
          />
        )
      }
    </Loaded>
  )
}
