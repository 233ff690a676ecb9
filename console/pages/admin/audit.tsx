import { useQuery } from '@tanstack/react-query'
import { AUDIT_ROWS, auditQuery } from '../../api/audit.ts'
import { offsetIn } from '../../api/paging.ts'
import { Time } from '../../design/clock.tsx'
import { Button, SearchField } from '../../design/controls.tsx'
import { Loaded } from '../../design/loaded.tsx'
import { Tag } from '../../design/status.tsx'
import { Card, Empty, Page } from '../../design/surfaces.tsx'
import { Table } from '../../design/table.tsx'
import { useFilters } from '../../shell/filters.ts'

/** Changes with their callers, newest first. */
export default function Audit() {
  const [filters, change] = useFilters('/audit')
  const offset = offsetIn(filters.offset)
  const { search = '' } = filters
  const query = useQuery(auditQuery(filters.offset))
  return (
    <Page title="Audit" subtitle="Every change through the API, with its caller and its answer.">
      <Card
        isFlush
        actions={
          <SearchField
            label="Search this page"
            value={search}
            onChange={(value) => change({ search: value })}
          />
        }
      >
        <Loaded query={query}>
          {(entries) => {
            const found = entries.filter((entry) =>
              JSON.stringify(entry).toLowerCase().includes(search.toLowerCase()),
            )
            return (
              <>
                {found.length === 0 ? (
                  <Empty icon="audit" title="No entry here" />
                ) : (
                  <Table
                    label="Entries"
                    rows={found}
                    keyOf={({ id }) => id}
                    columns={[
                      { name: 'When', cell: (entry) => <Time at={entry.created_at} /> },
                      { name: 'Who', cell: (entry) => entry.user_id || entry.key || '–' },
                      { name: 'Action', cell: (entry) => <Tag>{entry.action}</Tag> },
                      { name: 'Resource', cell: (entry) => <code>{entry.resource}</code> },
                      { name: 'Answer', isNumeric: true, cell: (entry) => entry.status },
                      { name: 'Times', isNumeric: true, cell: (entry) => entry.count },
                      { name: 'From', cell: (entry) => entry.ip },
                    ]}
                  />
                )}
                <nav className="pager" aria-label="Pages">
                  <span>
                    {entries.length === 0 ? 'No entry' : `${offset + 1} to ${offset + entries.length}`}
                  </span>
                  <span className="row">
                    <Button
                      size="small"
                      disabled={offset === 0}
                      onClick={() => change({ offset: String(Math.max(0, offset - AUDIT_ROWS)) })}
                    >
                      Newer
                    </Button>
                    <Button
                      size="small"
                      disabled={entries.length < AUDIT_ROWS}
                      onClick={() => change({ offset: String(offset + AUDIT_ROWS) })}
                    >
                      Older
                    </Button>
                  </span>
                </nav>
              </>
            )
          }}
        </Loaded>
      </Card>
    </Page>
  )
}
