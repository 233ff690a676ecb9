import { useQuery } from '@tanstack/react-query'
import { Link, useParams } from '@tanstack/react-router'
import { folderOf, type Named, type Pipeline, pipelineQuery } from '../../api/pipelines.ts'
import { isGone, Loaded } from '../../design/loaded.tsx'
import { Pill, Status, Tag } from '../../design/status.tsx'
import { Page } from '../../design/surfaces.tsx'
import { Tabs } from '../../design/tabs.tsx'
import { useFilters } from '../../shell/filters.ts'
import { PipelineActions } from './actions.tsx'
import { Code } from './code.tsx'
import { useUnsaved } from './draft.ts'
import { Neighbours } from './neighbours.tsx'
import { PipelineRuns } from './runs.tsx'
import { Starts } from './starts.tsx'
import { Tests } from './tests.tsx'
import { Versions } from './versions.tsx'

const TABS = [
  ['code', 'Code'],
  ['tests', 'Tests'],
  ['starts', 'Triggers and schedules'],
  ['versions', 'Versions'],
  ['lineage', 'Lineage'],
  ['runs', 'Runs'],
] as const
type Tab = (typeof TABS)[number][0]

/** One pipeline. The tab is in the address. */
export default function PipelinePage() {
  const at = useParams({ from: '/pipelines/$ns/$layer/$name' })
  const [filters, change] = useFilters('/pipelines/$ns/$layer/$name')
  const tab = TABS.find(([key]) => key === filters.tab)?.[0] ?? 'code'
  const query = useQuery(pipelineQuery(at))
  const pipeline = isGone(query.error) ? undefined : query.data
  // A text that is not saved can still be copied after the pipeline has gone.
  const isUnsaved = useUnsaved(folderOf(at))
  return (
    <Page
      title={`${at.ns}.${at.layer}.${at.name}`}
      crumbs={<Link to="/pipelines">Pipelines</Link>}
      subtitle={pipeline && <Summary pipeline={pipeline} />}
      isWide={tab === 'code'}
      actions={pipeline && <PipelineActions at={at} pipeline={pipeline} />}
    >
      <Tabs
        label="Parts of the pipeline"
        tabs={TABS}
        value={tab}
        onChange={(key) => change({ tab: key === 'code' ? '' : key })}
      >
        <Loaded query={query} isKept={isUnsaved}>
          {(loaded) => <Part tab={tab} at={at} pipeline={loaded} />}
        </Loaded>
      </Tabs>
    </Page>
  )
}

function Part({ tab, at, pipeline }: { tab: Tab; at: Named; pipeline: Pipeline }) {
  switch (tab) {
    case 'code':
      return <Code at={at} pipeline={pipeline} />
    case 'tests':
      return <Tests at={at} pipeline={pipeline} />
    case 'starts':
      return <Starts at={at} />
    case 'versions':
      return <Versions at={at} pipeline={pipeline} />
    case 'lineage':
      return <Neighbours at={at} />
    case 'runs':
      return <PipelineRuns at={at} />
  }
}

function Summary({ pipeline }: { pipeline: Pipeline }) {
  const { published_version: version, draft_dirty: isDirty, last_run: run, description, tags } = pipeline
  return (
    <span className="row">
      {version === null ? <Pill tone="idle">not published</Pill> : <span>version {version}</span>}
      {isDirty && <Pill tone="warn">draft differs</Pill>}
      {run && (
        <Link className="row" to="/runs/$id" params={{ id: run.run_id }}>
          last run <Status status={run.status} />
        </Link>
      )}
      {tags.map((tag) => (
        <Tag key={tag}>{tag}</Tag>
      ))}
      {description && <span>{description}</span>}
    </span>
  )
}
