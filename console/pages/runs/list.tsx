import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { api, ok } from '../../api/client.ts'
import { LIVE_MS } from '../../api/queries.ts'
import { Time } from '../../design/clock.tsx'
import { Select } from '../../design/controls.tsx'
import { duration } from '../../design/format.ts'
import { Loaded } from '../../design/loaded.tsx'
import { Status } from '../../design/status.tsx'
import { Card, Empty, Page } from '../../design/surfaces.tsx'
import { Pager, Table } from '../../design/table.tsx'
import { useFilters } from '../../shell/filters.ts'

const PAGE_ROWS = 50
const STATUSES = ['pending', 'running', 'success', 'failed', 'cancelled'] as const
type RunStatus = (typeof STATUSES)[number]

/** All runs, newest first. The filters are in the address. */
export default function RunList() {
  const [filters, change] = useFilters()
  const offset = Number(filters.offset ?? 0)
  const status = STATUSES.find((each) => each === filters.status)
  const query = useQuery({
    queryKey: ['runs', 'list', status, offset],
    queryFn: () =>
      ok(
        api.runs.get({
          query: {
            ...(status && { status: status satisfies RunStatus }),
            limit: String(PAGE_ROWS),
            offset: String(offset),
          },
        }),
      ),
    refetchInterval: LIVE_MS,
    placeholderData: (before) => before,
  })
  return (
    <Page
      title="Runs"
      subtitle="Each run works on its own branch, is tested there, and merges or leaves no trace."
    >
      <Card
        isFlush
        actions={
          <Select
            label="Status"
            isLabelShown={false}
            value={status ?? ''}
            choices={[
              { value: '', label: 'All statuses' },
              ...STATUSES.map((value) => ({ value, label: value })),
            ]}
            onChange={(value) => change({ status: value, offset: '' })}
          />
        }
      >
        <Loaded query={query}>
          {({ runs, total }) =>
            runs.length === 0 ? (
              <Empty icon="runs" title="No runs here" />
            ) : (
              <>
                <Table
                  label="Runs"
                  rows={runs}
                  keyOf={(run) => run.id}
                  columns={[
                    { name: 'Status', cell: (run) => <Status status={run.status} phase={run.phase} /> },
                    {
                      name: 'Pipeline',
                      cell: (run) => (
                        <Link to="/runs/$id" params={{ id: run.id }}>
                          {run.namespace}.{run.layer}.{run.pipeline}
                        </Link>
                      ),
                    },
                    { name: 'Trigger', cell: (run) => run.trigger },
                    { name: 'Requested', cell: (run) => <Time at={run.created_at} /> },
                    {
                      name: 'Duration',
                      isNumeric: true,
                      cell: (run) => (run.duration_ms === null ? '–' : duration(run.duration_ms)),
                    },
                  ]}
                />
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
    </Page>
  )
}
