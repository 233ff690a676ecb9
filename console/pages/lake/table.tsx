import { useQuery } from '@tanstack/react-query'
import { Link, useParams } from '@tanstack/react-router'
import {
  type Table,
  type TableAt,
  tablePreviewQuery,
  tableQuery,
  type Version,
  versionIn,
} from '../../api/tables.ts'
import { Button } from '../../design/controls.tsx'
import { bytes, counted } from '../../design/format.ts'
import { Loaded } from '../../design/loaded.tsx'
import { ResultGrid } from '../../design/result-grid.tsx'
import { Card, Empty, Notice, Page } from '../../design/surfaces.tsx'
import { BranchSelect } from '../../fields/branch-select.tsx'
import { useFilters } from '../../shell/filters.ts'
import { Attach } from './attach.tsx'
import { Columns } from './columns.tsx'
import { Files } from './files.tsx'
import { History } from './history.tsx'

/** One table: its columns, rows, files and earlier states, on main, on a branch or as of a commit. */
export default function TablePage() {
  const at = useParams({ from: '/lake/$ns/$layer/$name' })
  const [filters, change] = useFilters('/lake/$ns/$layer/$name')
  const { branch = '', as_of: asOf = '' } = filters
  const version = versionIn(filters)
  const table = useQuery(tableQuery(at, version))
  return (
    <Page
      title={`${at.ns}.${at.layer}.${at.name}`}
      crumbs={
        <Link to="/lake" search={version}>
          Lake
        </Link>
      }
      subtitle={table.data && subtitleOf(table.data)}
      actions={
        <>
          <BranchSelect
            value={branch}
            onChange={(value) => change({ branch: value, as_of: '', offset: '' })}
          />
          <Links at={at} version={version} />
        </>
      }
    >
      {asOf && (
        <Notice
          tone="warn"
          actions={
            <Button size="small" onClick={() => change({ as_of: '', offset: '' })}>
              Back to the present
            </Button>
          }
        >
          The table as of {/^\d+$/.test(asOf) ? `commit ${asOf}` : asOf}
        </Notice>
      )}
      <Loaded query={table}>
        {(loaded) => (
          <>
            <Columns at={at} table={loaded} version={version} />
            <Rows at={at} version={version} />
            <Files at={at} version={version} isView={loaded.kind === 'view'} />
          </>
        )}
      </Loaded>
      <History
        at={at}
        branch={branch}
        onOpen={(commit) => change({ as_of: String(commit), branch: '', offset: '' })}
      />
      <Attach at={at} version={version} />
    </Page>
  )
}

const subtitleOf = ({ kind, row_count: rows, size_bytes: size }: Table) =>
  kind === 'view' ? 'A view: a query that readers execute' : `${counted(rows, 'row')}, ${bytes(size)}`

function Links({ at, version }: { at: TableAt; version: Version }) {
  return (
    <>
      <Link
        className="button"
        to="/query"
        search={{ sql: `select * from "${at.ns}".${at.layer}."${at.name}" limit 100`, ...version }}
      >
        Query
      </Link>
      <Link className="button" to="/pipelines/$ns/$layer/$name" params={at}>
        Pipeline
      </Link>
      <Link
        className="button"
        to="/lineage"
        search={{ node: `table:${at.ns}.${at.layer}.${at.name}`, focus: 'upstream' }}
      >
        Lineage
      </Link>
    </>
  )
}

function Rows({ at, version }: { at: TableAt; version: Version }) {
  const preview = useQuery(tablePreviewQuery(at, version))
  return (
    <Card title="Rows">
      <Loaded query={preview}>
        {(found) =>
          found.rows.length === 0 ? (
            <Empty icon="lake" title="The table has no row" />
          ) : (
            <ResultGrid
              label="First rows"
              columns={found.columns}
              rows={found.rows as Record<string, unknown>[]}
            />
          )
        }
      </Loaded>
    </Card>
  )
}
