import { useQuery } from '@tanstack/react-query'
import { Link, useNavigate, useParams } from '@tanstack/react-router'
import { useState } from 'react'
import { api, type LayerName, ok } from '../../api/client.ts'
import { LIVE_MS, queryClient } from '../../api/queries.ts'
import { Button, TextField } from '../../design/controls.tsx'
import { Loaded } from '../../design/loaded.tsx'
import { FormDialog, Menu } from '../../design/overlay.tsx'
import { Pill, Status } from '../../design/status.tsx'
import { Page } from '../../design/surfaces.tsx'
import { useFilters } from '../../shell/filters.ts'
import { Code } from './code.tsx'
import { type Named, type Pipeline, pipelineAt, pipelineQuery } from './named.ts'
import { PipelineRuns } from './runs.tsx'
import { Starts } from './starts.tsx'
import { Tests } from './tests.tsx'
import { Versions } from './versions.tsx'

const TABS = [
  ['code', 'Code'],
  ['tests', 'Tests'],
  ['starts', 'Triggers and schedules'],
  ['versions', 'Versions'],
  ['runs', 'Runs'],
] as const

/** One pipeline. The tab is in the address. */
export default function PipelinePage() {
  const at = useParams({ from: '/pipelines/$ns/$layer/$name' })
  const [filters, change] = useFilters()
  const tab = TABS.find(([key]) => key === filters.tab)?.[0] ?? 'code'
  const query = useQuery({
    queryKey: ['pipelines', at.ns, at.layer, at.name],
    queryFn: pipelineQuery(at),
    refetchInterval: LIVE_MS,
  })
  const pipeline = query.data
  return (
    <Page
      title={`${at.ns}.${at.layer}.${at.name}`}
      crumbs={<Link to="/pipelines">Pipelines</Link>}
      subtitle={pipeline && <Summary pipeline={pipeline} />}
      isWide={tab === 'code'}
      actions={pipeline && <PipelineActions at={at} pipeline={pipeline} />}
    >
      <div className="tabs" role="tablist" aria-label="Parts of the pipeline">
        {TABS.map(([key, label]) => (
          <button
            type="button"
            role="tab"
            key={key}
            aria-selected={tab === key}
            onClick={() => change({ tab: key === 'code' ? '' : key })}
          >
            {label}
          </button>
        ))}
      </div>
      <Loaded query={query}>
        {(loaded) => (
          <>
            {tab === 'code' && <Code at={at} pipeline={loaded} />}
            {tab === 'tests' && <Tests at={at} />}
            {tab === 'starts' && <Starts at={at} />}
            {tab === 'versions' && <Versions at={at} pipeline={loaded} />}
            {tab === 'runs' && <PipelineRuns at={at} />}
          </>
        )}
      </Loaded>
    </Page>
  )
}

function Summary({ pipeline }: { pipeline: Pipeline }) {
  const { published_version: version, draft_dirty: isDirty, last_run: run, description } = pipeline
  return (
    <span className="row">
      {version === null ? <Pill tone="idle">not published</Pill> : <span>version {version}</span>}
      {isDirty && <Pill tone="warn">draft differs</Pill>}
      {run && (
        <Link className="row" to="/runs/$id" params={{ id: run.run_id }}>
          last run <Status status={run.status} />
        </Link>
      )}
      {description && <span>{description}</span>}
    </span>
  )
}

function PipelineActions({ at, pipeline }: { at: Named; pipeline: Pipeline }) {
  const navigate = useNavigate()
  const [asked, setAsked] = useState<'publish' | 'delete' | null>(null)
  const [message, setMessage] = useState('')
  const refresh = () => queryClient.invalidateQueries({ queryKey: ['pipelines'] })
  const { ns, layer, name } = at
  const run = async () => {
    const body = { namespace: ns, layer: layer as LayerName, pipeline: name, trigger: 'manual' }
    const { run_id: id } = await ok(api.runs.post(body, { headers: {} }))
    await navigate({ to: '/runs/$id', params: { id } })
  }
  const [isRunning, setRunning] = useState(false)
  return (
    <>
      <Button
        kind={pipeline.draft_dirty || pipeline.published_version === null ? 'primary' : 'plain'}
        icon="check"
        onClick={() => setAsked('publish')}
      >
        Publish
      </Button>
      <Button icon="runs" onClick={() => setRunning(true)}>
        Run
      </Button>
      <Menu
        label="More actions"
        items={[
          {
            label: 'Open its table',
            icon: 'lake',
            onSelect: () => void navigate({ to: '/lake/$ns/$layer/$name', params: at }),
          },
          {
            label: 'Delete the pipeline',
            icon: 'cross',
            isDangerous: true,
            onSelect: () => setAsked('delete'),
          },
        ]}
      />
      <FormDialog
        title="Run the pipeline"
        description={
          pipeline.published_version === null
            ? 'No version is published, so the run executes the draft.'
            : `The run executes version ${pipeline.published_version} on a branch of its own and merges it if the tests pass.`
        }
        isOpen={isRunning}
        onClose={() => setRunning(false)}
        submitLabel="Run"
        submit={run}
      />
      <FormDialog
        title="Publish the draft"
        description="Publishing checks the draft and makes it the version that runs execute."
        isOpen={asked === 'publish'}
        onClose={() => setAsked(null)}
        submitLabel="Publish"
        submit={async () => {
          await ok(pipelineAt(at).publish.post(message === '' ? {} : { message }, { headers: {} }))
          setMessage('')
          await refresh()
        }}
      >
        <TextField
          label="Message (optional)"
          hint="What changes, for people who read the list of versions"
          value={message}
          onChange={(event) => setMessage(event.target.value)}
        />
      </FormDialog>
      <FormDialog
        title={`Delete ${ns}.${layer}.${name}`}
        description="Its runs are cancelled and its files removed. Its table stays in the lake."
        isOpen={asked === 'delete'}
        onClose={() => setAsked(null)}
        submitLabel="Delete the pipeline"
        isDangerous
        submit={async () => {
          await ok(pipelineAt(at).delete())
          await refresh()
          await navigate({ to: '/pipelines' })
        }}
      />
    </>
  )
}
