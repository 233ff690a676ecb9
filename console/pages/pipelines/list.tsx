import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useState } from 'react'
import { type ListedPipeline, NO_SOURCE, pipelineFilterOf, pipelineListQuery } from '../../api/pipelines.ts'
import { Time } from '../../design/clock.tsx'
import { Button } from '../../design/controls.tsx'
import { Loaded } from '../../design/loaded.tsx'
import { Layer, Pill, Status, Tag } from '../../design/status.tsx'
import { Card, Empty, Page } from '../../design/surfaces.tsx'
import { Table } from '../../design/table.tsx'
import { useFilters } from '../../shell/filters.ts'
import { usePager } from '../../shell/paging.tsx'
import { CreatePipeline } from './create-pipeline.tsx'
import { ListFilters, NO_FILTERS } from './list-filters.tsx'

/** All pipelines. Search and filters are in the address. */
export default function PipelineList() {
  const [filters, change] = useFilters('/pipelines')
  // A link such as `?namespace=sales&create=orders` opens the form for an input.
  const [isCreating, setCreating] = useState(filters.create !== undefined)
  const pager = usePager()
  const isFiltered = Object.keys(pipelineFilterOf(filters)).length > 0
  const query = useQuery(pipelineListQuery(filters))
  return (
    <Page
      title="Pipelines"
      subtitle="SQL or Python that makes one table from landing zones and other tables."
      actions={
        <Button kind="primary" icon="plus" onClick={() => setCreating(true)}>
          New pipeline
        </Button>
      }
    >
      <Card
        isFlush
        actions={<ListFilters filters={filters} change={(changes) => change({ ...changes, offset: '' })} />}
      >
        <Loaded query={query}>
          {({ pipelines, total }) =>
            total === 0 ? (
              <Empty
                icon="pipelines"
                title={isFiltered ? 'No pipeline fits these filters' : 'No pipeline yet'}
                actions={
                  isFiltered ? (
                    <Button onClick={() => change(NO_FILTERS)}>Show all pipelines</Button>
                  ) : (
                    <Button onClick={() => setCreating(true)}>Write the first one</Button>
                  )
                }
              >
                A bronze pipeline reads a landing zone, silver cleans, gold answers questions.{' '}
                <Link to="/welcome">The tour</Link> shows how, in five minutes.
              </Empty>
            ) : (
              <>
                <PipelineTable pipelines={pipelines} onTag={(next) => change({ tag: next, offset: '' })} />
                {pager(total)}
              </>
            )
          }
        </Loaded>
      </Card>
      {isCreating && (
        <CreatePipeline
          namespace={filters.namespace || undefined}
          source={filters.create === NO_SOURCE ? '' : (filters.create ?? '')}
          onClose={() => {
            setCreating(false)
            change({ create: '' })
          }}
        />
      )}
    </Page>
  )
}

function PipelineTable({
  pipelines,
  onTag,
}: {
  pipelines: readonly ListedPipeline[]
  onTag: (tag: string) => void
}) {
  return (
    <Table
      label="Pipelines"
      rows={pipelines}
      keyOf={({ id }) => id}
      columns={[
        { name: 'Layer', cell: ({ layer }) => <Layer layer={layer} /> },
        {
          name: 'Pipeline',
          cell: ({ namespace: ns, layer, name, description, tags }) => (
            <>
              <Link to="/pipelines/$ns/$layer/$name" params={{ ns, layer, name }}>
                {ns}.{layer}.{name}
              </Link>
              {description && <div className="muted">{description}</div>}
              {tags.length > 0 && (
                <div className="row">
                  {tags.map((tag) => (
                    <Button
                      key={tag}
                      size="small"
                      kind="quiet"
                      title={`Pipelines with the tag ${tag}`}
                      onClick={() => onTag(tag)}
                    >
                      #{tag}
                    </Button>
                  ))}
                </div>
              )}
            </>
          ),
        },
        { name: 'Language', cell: ({ type }) => <Tag>{type}</Tag> },
        {
          name: 'Version',
          cell: ({ published_version: version, draft_dirty: isDirty }) => (
            <span className="row">
              {version === null ? <Pill tone="idle">not published</Pill> : `version ${version}`}
              {isDirty && <Pill tone="warn">draft differs</Pill>}
            </span>
          ),
        },
        {
          name: 'Last run',
          cell: ({ last_run: run }) =>
            run === null ? (
              <span className="muted">never</span>
            ) : (
              <Link className="row" to="/runs/$id" params={{ id: run.run_id }}>
                <Status status={run.status} /> <Time at={run.finished_at} />
              </Link>
            ),
        },
      ]}
    />
  )
}
