import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import {
  deleteFile,
  restoreFile,
  type ZoneAt,
  type ZoneFile,
  zoneFilesQuery,
} from '../../api/landing-zones.ts'
import { Time } from '../../design/clock.tsx'
import { bytes, count } from '../../design/format.ts'
import { Loaded } from '../../design/loaded.tsx'
import { FormDialog, Menu } from '../../design/overlay.tsx'
import { Pill } from '../../design/status.tsx'
import { Card, Empty } from '../../design/surfaces.tsx'
import { Table } from '../../design/table.tsx'
import { performing, say } from '../../design/toasts.tsx'
import { useFilters } from '../../shell/filters.ts'
import { usePager } from '../../shell/paging.tsx'
import { quarantine } from './quarantine.ts'

/** The files of a zone, also those in quarantine. `open` shows a file in another tab. */
export function Files({
  at,
  total,
  open,
}: {
  at: ZoneAt
  total: number
  open: (tab: string, file: string) => void
}) {
  const [deleted, setDeleted] = useState<ZoneFile | null>(null)
  const [{ offset }] = useFilters('/landing-zones/$ns/$name')
  const pager = usePager()
  const restore = ({ id, filename }: ZoneFile) =>
    performing(restoreFile(at, id), `The next run reads ${filename}`)
  const query = useQuery(zoneFilesQuery(at, total, offset))
  return (
    <Card title="Files in the zone" isFlush>
      <Loaded query={query}>
        {({ files, total: all }) =>
          all === 0 ? (
            <Empty icon="landing" title="No file in the zone">
              Files leave this list when a successful run of an archiving pipeline has read them. The tab Runs
              shows them.
            </Empty>
          ) : (
            <>
              <Table
                label="Files"
                rows={files}
                keyOf={({ id }) => id}
                columns={[
                  {
                    name: 'File',
                    cell: ({ id, filename, status }) => (
                      <span className="row">
                        <button
                          type="button"
                          className="link long-name"
                          title="Show its columns and first rows"
                          onClick={() => open('schema', id)}
                        >
                          {filename}
                        </button>
                        {status === 'quarantined' && <Pill tone="warn">in quarantine</Pill>}
                      </span>
                    ),
                  },
                  { name: 'Type', cell: (file) => file.content_type },
                  {
                    name: 'Size',
                    isNumeric: true,
                    cell: (file) => (
                      <span title={`${count(file.size_bytes)} bytes`}>{bytes(file.size_bytes)}</span>
                    ),
                  },
                  { name: 'Uploaded', cell: (file) => <Time at={file.uploaded_at} /> },
                  {
                    name: 'Actions',
                    cell: (file) => (
                      <Menu
                        label={`Actions for ${file.filename}`}
                        size="small"
                        items={[
                          { label: 'Show its rows', icon: 'query', onSelect: () => open('schema', file.id) },
                          {
                            label: 'Show the runs that read it',
                            icon: 'runs',
                            onSelect: () => open('reads', file.id),
                          },
                          ...(file.status === 'quarantined'
                            ? [
                                {
                                  label: 'Restore the file',
                                  icon: 'refresh' as const,
                                  onSelect: () => void restore(file),
                                },
                              ]
                            : [
                                {
                                  label: 'Put the file in quarantine',
                                  icon: 'warn' as const,
                                  onSelect: () => void quarantine(at, file),
                                },
                              ]),
                          {
                            label: 'Delete the file',
                            icon: 'cross',
                            isDangerous: true,
                            onSelect: () => setDeleted(file),
                          },
                        ]}
                      />
                    ),
                  },
                ]}
              />
              {pager(all)}
            </>
          )
        }
      </Loaded>
      <FormDialog
        title="Delete the file"
        description={`${deleted?.filename} is deleted. No later run reads it.`}
        isOpen={deleted !== null}
        onClose={() => setDeleted(null)}
        submitLabel="Delete the file"
        isDangerous
        submit={async () => {
          if (deleted === null) return
          await deleteFile(at, deleted.id)
          say(`${deleted.filename} is deleted`)
        }}
      />
    </Card>
  )
}
