import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import type { Named } from '../../api/pipelines.ts'
import { pipelineRunsQuery } from '../../api/runs.ts'
import { Time } from '../../design/clock.tsx'
import { Loaded } from '../../design/loaded.tsx'
import { DURATION, ROWS, STATUS } from '../../design/run-columns.tsx'
import { Card, Empty } from '../../design/surfaces.tsx'
import { Table } from '../../design/table.tsx'

/** The newest runs of a pipeline. */
export function PipelineRuns({ at }: { at: Named }) {
  const query = useQuery(pipelineRunsQuery(at))
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
