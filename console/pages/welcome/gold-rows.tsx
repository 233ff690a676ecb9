import { useQuery } from '@tanstack/react-query'
import { goldRowsQuery } from '../../api/tour.ts'
import { RESULT } from '../../api/tour-sample.ts'
import { Loaded } from '../../design/loaded.tsx'
import { ResultGrid } from '../../design/result-grid.tsx'
import { CodeBlock } from '../../design/surfaces.tsx'

/** The rows of the gold table after a run. */
export function GoldRows({ namespace, run }: { namespace: string; run: string }) {
  const query = useQuery(goldRowsQuery(namespace, run))
  return (
    <>
      <p>The table is on main. Every query sees all of it, or nothing of it.</p>
      <CodeBlock label="Query" code={RESULT} />
      <Loaded query={query}>
        {({ columns, rows }) => (
          <ResultGrid
            label="Revenue by customer"
            columns={columns}
            rows={rows as Record<string, unknown>[]}
            height="140px"
          />
        )}
      </Loaded>
    </>
  )
}
