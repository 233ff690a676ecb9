import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { type Read, readsQuery, type ZoneAt } from '../../api/landing-zones.ts'
import { Time } from '../../design/clock.tsx'
import { Button } from '../../design/controls.tsx'
import { bytes } from '../../design/format.ts'
import { Loaded } from '../../design/loaded.tsx'
import { Pill, Status } from '../../design/status.tsx'
import { Card, Empty, Notice } from '../../design/surfaces.tsx'
import { Table } from '../../design/table.tsx'
import { useFilters } from '../../shell/filters.ts'
import { usePager } from '../../shell/paging.tsx'

/** Which run took which file. */
export function Reads({ at, open }: { at: ZoneAt; open: (tab: string, file?: string) => void }) {
  const [{ file = '', offset }] = useFilters('/landing-zones/$ns/$name')
  const pager = usePager()
  const query = useQuery(readsQuery(at, file, offset))
  return (
    <Card title="Which run took which file" isFlush>
      {file !== '' && (
        <div className="card-body">
          <Notice
            actions={
              <Button size="small" onClick={() => open('reads')}>
                Show all files
              </Button>
            }
          >
            Only runs that read {query.data?.reads[0]?.filename ?? 'this file'}
          </Notice>
        </div>
      )}
      <Loaded query={query}>
        {({ reads, total }) =>
          total === 0 ? (
            <Empty icon="runs" title={file === '' ? 'No run has read a file' : 'No run has read this file'}>
              Each run of a pipeline with landing_zone() appears here, with the files that it read. Retention
              removes old runs from this list.
            </Empty>
          ) : (
            <>
              <Table
                label="Reads"
                rows={reads}
                keyOf={(read) => `${read.run_id} ${read.file_id}`}
                columns={[
                  { name: 'File', cell: (read) => <FileOf read={read} open={open} /> },
                  {
                    name: 'Run',
                    cell: (read) => (
                      <Link className="row" to="/runs/$id" params={{ id: read.run_id }}>
                        <Status status={read.status} />
                        <span className="mono">{shortId(read.run_id)}</span>
                      </Link>
                    ),
                  },
                  { name: 'File now', cell: (read) => <StateOf read={read} /> },
                  {
                    name: 'Pipeline',
                    cell: ({ namespace: ns, layer, pipeline: name }) => (
                      <Link
                        className="long-name"
                        to="/pipelines/$ns/$layer/$name"
                        params={{ ns, layer, name }}
                      >
                        {ns}.{layer}.{name}
                      </Link>
                    ),
                  },
                  {
                    name: 'Size',
                    isNumeric: true,
                    cell: ({ size_bytes: size }) => (size === null ? '–' : bytes(size)),
                  },
                  { name: 'Read', cell: (read) => <Time at={read.read_at} /> },
                ]}
              />
              {pager(total)}
            </>
          )
        }
      </Loaded>
    </Card>
  )
}

/** Ids begin with their time, so the end tells runs apart. */
const shortId = (id: string): string => id.slice(-8)

function FileOf({ read, open }: { read: Read; open: (tab: string, file?: string) => void }) {
  if (read.filename === null)
    return (
      <span className="muted">
        deleted file <span className="mono">{shortId(read.file_id)}</span>
      </span>
    )
  return (
    <button
      type="button"
      className="link long-name"
      title="Show its columns and first rows"
      onClick={() => open('schema', read.file_id)}
    >
      {read.filename}
    </button>
  )
}

function StateOf({ read }: { read: Read }) {
  if (read.file_status === 'deleted') return <Pill tone="idle">deleted</Pill>
  if (read.file_status === 'active')
    return read.status === 'success' ? (
      <Pill tone="idle">stays in the zone</Pill>
    ) : (
      <Pill tone="busy">waits</Pill>
    )
  if (read.file_status === 'quarantined') return <Pill tone="warn">in quarantine</Pill>
  const by = read.archived_by_run
  return (
    <span className="row">
      <Pill tone="good">archived</Pill>
      {by === read.run_id && <span className="muted">by this run</span>}
      {by !== null && by !== read.run_id && (
        <Link to="/runs/$id" params={{ id: by }}>
          by run <span className="mono">{shortId(by)}</span>
        </Link>
      )}
    </span>
  )
}
