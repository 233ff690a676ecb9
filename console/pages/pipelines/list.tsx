import { useQuery } from '@tanstack/react-query'
import { Link, useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { api, LAYERS, type LayerName, ok } from '../../api/client.ts'
import { queryClient, SLOW_MS } from '../../api/queries.ts'
import { Time } from '../../design/clock.tsx'
import { Button, SearchField, Select, TextField } from '../../design/controls.tsx'
import { Loaded } from '../../design/loaded.tsx'
import { FormDialog } from '../../design/overlay.tsx'
import { Layer, Pill, Status, Tag } from '../../design/status.tsx'
import { Card, Empty, Page } from '../../design/surfaces.tsx'
import { Pager, Table } from '../../design/table.tsx'
import { useFilters } from '../../shell/filters.ts'

const PAGE_ROWS = 50

/** All pipelines. Search and filters are in the address. */
export default function PipelineList() {
  const [filters, change] = useFilters()
  const [isCreating, setCreating] = useState(false)
  const offset = Number(filters.offset ?? 0)
  const layer = LAYERS.find((each) => each === filters.layer)
  const { search = '', namespace = '' } = filters
  const query = useQuery({
    queryKey: ['pipelines', 'list', search, namespace, layer, offset],
    queryFn: () =>
      ok(
        api.pipelines.get({
          query: {
            ...(search && { search }),
            ...(namespace && { namespace }),
            ...(layer && { layer }),
            limit: String(PAGE_ROWS),
            offset: String(offset),
          },
        }),
      ),
    refetchInterval: SLOW_MS,
    placeholderData: (before) => before,
  })
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
        actions={
          <>
            <SearchField
              label="Search pipelines"
              value={search}
              onChange={(value) => change({ search: value, offset: '' })}
            />
            <Select
              label="Layer"
              isLabelShown={false}
              value={layer ?? ''}
              choices={[
                { value: '', label: 'All layers' },
                ...LAYERS.map((value) => ({ value, label: value })),
              ]}
              onChange={(value) => change({ layer: value, offset: '' })}
            />
          </>
        }
      >
        <Loaded query={query}>
          {({ pipelines, total }) =>
            pipelines.length === 0 ? (
              <Empty
                icon="pipelines"
                title={search || layer || namespace ? 'No pipeline has this name' : 'No pipeline yet'}
                actions={
                  !(search || layer || namespace) && (
                    <Button onClick={() => setCreating(true)}>Write the first one</Button>
                  )
                }
              >
                A bronze pipeline reads a landing zone, silver cleans, gold answers questions.
              </Empty>
            ) : (
              <>
                <PipelineTable pipelines={pipelines} />
                <Pager
                  offset={offset}
                  limit={PAGE_ROWS}
                  total={total}
                  onOffset={(next) => change({ offset: next === 0 ? '' : String(next) })}
                />
              </>
            )
          }
        </Loaded>
      </Card>
      <CreatePipeline isOpen={isCreating} onClose={() => setCreating(false)} />
    </Page>
  )
}

const listed = () => ok(api.pipelines.get({ query: {} }))
type Listed = Awaited<ReturnType<typeof listed>>['pipelines'][number]

function PipelineTable({ pipelines }: { pipelines: readonly Listed[] }) {
  return (
    <Table
      label="Pipelines"
      rows={pipelines}
      keyOf={({ id }) => id}
      columns={[
        { name: 'Layer', cell: ({ layer }) => <Layer layer={layer} /> },
        {
          name: 'Pipeline',
          cell: ({ namespace: ns, layer, name, description }) => (
            <>
              <Link to="/pipelines/$ns/$layer/$name" params={{ ns, layer, name }}>
                {ns}.{layer}.{name}
              </Link>
              {description && <div className="muted">{description}</div>}
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

function CreatePipeline({ isOpen, onClose }: { isOpen: boolean; onClose: () => void }) {
  const navigate = useNavigate()
  const [form, setForm] = useState({
    namespace: 'default',
    layer: 'bronze' as LayerName,
    name: '',
    type: 'sql' as 'sql' | 'python',
    description: '',
  })
  const create = async () => {
    const { namespace: ns, layer, name } = await ok(api.pipelines.post(form))
    await queryClient.invalidateQueries({ queryKey: ['pipelines'] })
    await navigate({ to: '/pipelines/$ns/$layer/$name', params: { ns, layer, name } })
  }
  return (
    <FormDialog
      title="New pipeline"
      description="It starts with a draft that can be published and run unchanged."
      isOpen={isOpen}
      onClose={onClose}
      submitLabel="Create"
      submit={create}
    >
      <TextField
        label="Name"
        required
        pattern="[a-z][a-z0-9_\-]*"
        hint="Small letters, digits, - and _"
        value={form.name}
        onChange={(event) => setForm({ ...form, name: event.target.value })}
      />
      <div className="row">
        <TextField
          label="Namespace"
          required
          value={form.namespace}
          onChange={(event) => setForm({ ...form, namespace: event.target.value })}
        />
        <Select
          label="Layer"
          value={form.layer}
          choices={LAYERS.map((value) => ({ value, label: value }))}
          onChange={(value) => setForm({ ...form, layer: value as LayerName })}
        />
        <Select
          label="Language"
          value={form.type}
          choices={[
            { value: 'sql', label: 'SQL' },
            { value: 'python', label: 'Python' },
          ]}
          onChange={(value) => setForm({ ...form, type: value as 'sql' | 'python' })}
        />
      </div>
      <TextField
        label="Description"
        value={form.description}
        onChange={(event) => setForm({ ...form, description: event.target.value })}
      />
    </FormDialog>
  )
}
