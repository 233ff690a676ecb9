import { useQuery } from '@tanstack/react-query'
import { type Run, runDiffQuery, runRowsQuery } from '../../api/runs.ts'
import { Loaded } from '../../design/loaded.tsx'
import { Card, Empty } from '../../design/surfaces.tsx'
import { TableChanges } from '../branches/table-changes.tsx'

/** The change of a run: schema, counts and rows of its table. */
export function RunDiff({ run }: { run: Run }) {
  const options = runDiffQuery(run)
  const query = useQuery(options)
  if (options.enabled === false) return null
  return (
    <Card title="What it changes" isFlush>
      <Loaded query={query}>
        {({ tables }) =>
          tables.length === 0 ? (
            <Empty icon="lake" title="The run changes no table" />
          ) : (
            <TableChanges tables={tables} rowsOf={(table) => runRowsQuery(run, table)} />
          )
        }
      </Loaded>
    </Card>
  )
}
