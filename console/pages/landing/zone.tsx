import { useQuery } from '@tanstack/react-query'
import { Link, useNavigate, useParams } from '@tanstack/react-router'
import { useState } from 'react'
import { api, ok } from '../../api/client.ts'
import { LIVE_MS, queryClient } from '../../api/queries.ts'
import { Time } from '../../design/clock.tsx'
import { Button, CopyButton, IconButton } from '../../design/controls.tsx'
import { bytes, count, counted } from '../../design/format.ts'
import { Loaded } from '../../design/loaded.tsx'
import { FormDialog } from '../../design/overlay.tsx'
import { Card, Empty, Page } from '../../design/surfaces.tsx'
import { Pager, Table } from '../../design/table.tsx'
import { performing } from '../../design/toasts.tsx'
import { useFilters } from '../../shell/filters.ts'
import { DropArea } from './drop-area.tsx'

const PAGE_ROWS = 50

export interface ZoneAt {
  ns: string
  name: string
}
const zoneAt = ({ ns, name }: ZoneAt) => api['landing-zones']({ ns })({ name })

/** One landing zone: drop files, and see those that wait for a run. */
export default function ZonePage() {
  const at = useParams({ from: '/landing-zones/$ns/$name' })
  const navigate = useNavigate()
  const [isDeleting, setDeleting] = useState(false)
  const query = useQuery({
    queryKey: ['zones', at.ns, at.name],
    queryFn: () => ok(zoneAt(at).get()),
    refetchInterval: LIVE_MS,
  })
  const refresh = () => queryClient.invalidateQueries({ queryKey: ['zones'] })
  return (
    <Page
      title={`${at.ns}.${at.name}`}
      crumbs={<Link to="/landing-zones">Landing zones</Link>}
      subtitle={query.data && `${counted(query.data.file_count, 'file')}, ${bytes(query.data.total_bytes)}`}
      actions={
        <>
          <CopyButton label="Copy the reference" text={`{{ landing_zone('${at.name}') }}`} />
          <Button kind="danger" onClick={() => setDeleting(true)}>
            Delete
          </Button>
        </>
      }
    >
      <DropArea path={`landing-zones/${at.ns}/${at.name}/files`} onStored={() => void refresh()} />
      <Loaded query={query}>
        {(zone) => (
          <>
            {zone.description && <p>{zone.description}</p>}
            <Files at={at} total={zone.file_count} />
          </>
        )}
      </Loaded>
      <FormDialog
        title={`Delete ${at.ns}.${at.name}`}
        description="All its files are deleted. Tables that were made from them stay."
        isOpen={isDeleting}
        onClose={() => setDeleting(false)}
        submitLabel="Delete the zone"
        isDangerous
        submit={async () => {
          await ok(zoneAt(at).delete())
          await refresh()
          await navigate({ to: '/landing-zones' })
        }}
      />
    </Page>
  )
}

function Files({ at, total }: { at: ZoneAt; total: number }) {
  const [filters, change] = useFilters()
  const offset = Number(filters.offset ?? 0)
  const query = useQuery({
    queryKey: ['zones', at.ns, at.name, 'files', offset, total],
    queryFn: () => ok(zoneAt(at).files.get({ query: { limit: String(PAGE_ROWS), offset: String(offset) } })),
    placeholderData: (before) => before,
  })
  const remove = (id: string, filename: string) =>
    performing(
      ok(zoneAt(at).files({ id }).delete()).then(() =>
        queryClient.invalidateQueries({ queryKey: ['zones'] }),
      ),
      `${filename} is deleted`,
    )
  return (
    <Card title="Files that wait" isFlush>
      <Loaded query={query}>
        {({ files, total: all }) =>
          files.length === 0 ? (
            <Empty icon="landing" title="No file waits">
              Files leave this list when a successful run of an archiving pipeline has read them.
            </Empty>
          ) : (
            <>
              <Table
                label="Files"
                rows={files}
                keyOf={({ id }) => id}
                columns={[
                  { name: 'File', cell: (file) => file.filename },
                  { name: 'Type', cell: (file) => file.content_type },
                  {
                    name: 'Size',
                    isNumeric: true,
                    cell: (file) => `${bytes(file.size_bytes)} (${count(file.size_bytes)} B)`,
                  },
                  { name: 'Uploaded', cell: (file) => <Time at={file.uploaded_at} /> },
                  {
                    name: 'Actions',
                    cell: ({ id, filename }) => (
                      <IconButton
                        icon="cross"
                        size="small"
                        label={`Delete ${filename}`}
                        onClick={() => void remove(id, filename)}
                      />
                    ),
                  },
                ]}
              />
              <Pager
                offset={offset}
                limit={PAGE_ROWS}
                total={all}
                onOffset={(next) => change({ offset: next === 0 ? '' : String(next) })}
              />
            </>
          )
        }
      </Loaded>
    </Card>
  )
}
