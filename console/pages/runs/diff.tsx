import { useQuery } from '@tanstack/react-query'
import { api, ok } from '../../api/client.ts'
import { Loaded } from '../../design/loaded.tsx'
import { Card, Empty } from '../../design/surfaces.tsx'
import { TableChanges } from '../branches/table-changes.tsx'
import type { Run } from './run-query.ts'

/** The change of a run: schema, counts and rows of its table. */
export function RunDiff({ run }: { run: Run }) {
  const isReviewed = run.phase === 'review'
  const hasResult = isReviewed || run.status === 'success' || run.status === 'failed'
  const query = useQuery({
    queryKey: ['runs', run.id, 'diff', run.status, run.phase],
    queryFn: () => ok(api.runs({ id: run.id }).diff.get()),
    enabled: hasResult,
    retry: false,
  })
  if (!hasResult) return null
  return (
    <Card title="What it changes" isFlush>
      <Loaded query={query}>
        {({ tables }) =>
          tables.length === 0 ? (
            <Empty icon="lake" title="The run changes no table" />
          ) : (
            <TableChanges
              tables={tables}
              of={['runs', run.id, String(run.attempt)]}
              readRows={(_, limit) => ok(api.runs({ id: run.id }).diff.rows.get({ query: { limit } }))}
            />
          )
        }
      </Loaded>
    </Card>
  )
}
