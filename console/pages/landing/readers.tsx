import { useQueries, useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import type { ZoneAt } from '../../api/landing-zones.ts'
import { type LineageGraph, type LineageNode, lineageQuery } from '../../api/lineage.ts'
import { type Trigger, triggersQuery } from '../../api/triggers.ts'
import { Time } from '../../design/clock.tsx'
import { Loaded } from '../../design/loaded.tsx'
import { Layer, Pill, Status } from '../../design/status.tsx'
import { Card, Empty, Notice } from '../../design/surfaces.tsx'
import { Table } from '../../design/table.tsx'

/** The triggers of so many pipelines are loaded, one request for each. */
const PIPELINES_MAX = 20

type Pipeline = Extract<LineageNode, { type: 'pipeline' }>

/** The pipelines that read a zone, with their triggers on its uploads. */
export function Readers({ at }: { at: ZoneAt }) {
  const id = `landing:${at.ns}.${at.name}`
  const query = useQuery(lineageQuery({ node: id }))
  const readers = readersIn(query.data, id)
  const shown = readers.slice(0, PIPELINES_MAX)
  const triggers = useQueries({
    queries: shown.map(({ namespace: ns, layer, name }) => triggersQuery({ ns, layer, name })),
  })
  return (
    <Card title="Pipelines that read this zone" isFlush>
      <Loaded query={query}>
        {() =>
          shown.length === 0 ? (
            <Empty icon="pipelines" title="No pipeline reads this zone">
              A pipeline reads the zone when its source calls landing_zone('{at.name}').
            </Empty>
          ) : (
            <>
              <Table
                label="Pipelines"
                rows={shown.map((pipeline, index) => ({ pipeline, triggers: triggers[index] }))}
                keyOf={({ pipeline }) => pipeline.id}
                columns={[
                  {
                    name: 'Pipeline',
                    cell: ({ pipeline: { namespace: ns, layer, name } }) => (
                      <Link to="/pipelines/$ns/$layer/$name" params={{ ns, layer, name }}>
                        {ns}.{layer}.{name}
                      </Link>
                    ),
                  },
                  { name: 'Layer', cell: ({ pipeline }) => <Layer layer={pipeline.layer} /> },
                  { name: 'Latest run', cell: ({ pipeline }) => <LatestRun pipeline={pipeline} /> },
                  {
                    name: 'Triggers on uploads',
                    cell: ({ pipeline, triggers: found }) =>
                      found?.isError ? (
                        <span className="muted">not available</span>
                      ) : (
                        <Triggers pipeline={pipeline} triggers={listening(found?.data?.triggers, at)} />
                      ),
                  },
                ]}
              />
              {readers.length > shown.length && (
                <div className="card-body">
                  <Notice>The first {PIPELINES_MAX} pipelines are shown. Lineage shows all.</Notice>
                </div>
              )}
            </>
          )
        }
      </Loaded>
    </Card>
  )
}

function readersIn(graph: LineageGraph | undefined, zone: string): Pipeline[] {
  const targets = new Set(graph?.edges.filter(({ source }) => source === zone).map(({ target }) => target))
  return (graph?.nodes ?? []).filter(
    (node): node is Pipeline => node.type === 'pipeline' && targets.has(node.id),
  )
}

/** The triggers that uploads to the zone fire. */
const listening = (triggers: readonly Trigger[] | undefined, { ns, name }: ZoneAt) =>
  triggers?.filter(({ type, config }) => {
    if (type !== 'landing_zone_upload' && type !== 'file_pattern') return false
    const { namespace, zone_name: zone } = config as Record<string, unknown>
    return namespace === ns && zone === name
  })

function LatestRun({ pipeline: { latest_run: run } }: { pipeline: Pipeline }) {
  if (run === null) return <span className="muted">none</span>
  return (
    <Link className="row" to="/runs/$id" params={{ id: run.id }}>
      <Status status={run.status} />
      <Time at={run.started_at} />
    </Link>
  )
}

function Triggers({ pipeline, triggers }: { pipeline: Pipeline; triggers: Trigger[] | undefined }) {
  const { namespace: ns, layer, name } = pipeline
  if (triggers === undefined) return null
  return (
    <span className="stack-tight">
      {triggers.map(({ id, type, config, enabled }) => (
        <span className="row" key={id}>
          <Pill tone={enabled ? 'good' : 'idle'}>{enabled ? 'on' : 'off'}</Pill>
          {type === 'file_pattern' ? (
            <span>
              files like <code>{String((config as Record<string, unknown>).pattern)}</code>
            </span>
          ) : (
            'each upload'
          )}
        </span>
      ))}
      <Link to="/pipelines/$ns/$layer/$name" params={{ ns, layer, name }} search={{ tab: 'starts' }}>
        {triggers.length === 0 ? 'None: add a trigger' : 'Change triggers'}
      </Link>
    </span>
  )
}
