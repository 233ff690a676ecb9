import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { api, type LayerName, ok } from '../../api/client.ts'
import { LIVE_MS } from '../../api/queries.ts'
import { Time } from '../../design/clock.tsx'
import { Loaded } from '../../design/loaded.tsx'
import { Card, Empty } from '../../design/surfaces.tsx'
import { Table } from '../../design/table.tsx'
import { DURATION, ROWS, STATUS } from '../runs/columns.tsx'
import type { Named } from './named.ts'

/** The newest runs of a pipeline. */
export function PipelineRuns({ at }: { at: Named }) {
  const { ns: namespace, layer, name: pipeline } = at
  const query = useQuery({
    queryKey: ['runs', 'of', namespace, layer, pipeline],
    queryFn: () =>
      ok(api.runs.get({ query: { namespace, layer: layer as LayerName, pipeline, limit: '30' } })),
    refetchInterval: LIVE_MS,
  })
  return (
    <Card title="Newest runs" isFlush>
      <Loaded query={query}>
        {({ runs }) =>
          runs.length === 0 ? (
            <Empty icon="runs" title="No run yet" />
          ) : (
            <Table
              label="Runs of the pipeline"
              rows={runs}
              keyOf={({ id }) => id}
              columns={[
                STATUS,
                {
                  name: 'Requested',
                  cell: (run) => (
                    <Link to="/runs/$id" params={{ id: run.id }}>
                      <Time at={run.created_at} />
                    </Link>
                  ),
                },
                { name: 'Branch', cell: (run) => run.branch },
                { name: 'Trigger', cell: (run) => run.trigger },
                ROWS,
                DURATION,
              ]}
            />
          )
        }
      </Loaded>
    </Card>
  )
}
