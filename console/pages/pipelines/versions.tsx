import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { type Named, type Pipeline, rollBack, versionsQuery } from '../../api/pipelines.ts'
import { Time } from '../../design/clock.tsx'
import { Button, Checkbox, TextField } from '../../design/controls.tsx'
import { Loaded } from '../../design/loaded.tsx'
import { FormDialog } from '../../design/overlay.tsx'
import { Pill } from '../../design/status.tsx'
import { Card, Empty } from '../../design/surfaces.tsx'
import { Table } from '../../design/table.tsx'
import { type Version, VersionDialog } from './version-dialog.tsx'

/** The published versions, newest first, and the way back to one of them. */
export function Versions({ at, pipeline }: { at: Named; pipeline: Pipeline }) {
  const [chosen, setChosen] = useState<number | null>(null)
  const [shown, setShown] = useState<number | null>(null)
  const [message, setMessage] = useState('')
  const [withData, setWithData] = useState(false)
  const query = useQuery(versionsQuery(at, pipeline.published_version))
  const body = { version: chosen ?? 0, ...(message && { message }), ...(withData && { data: true }) }
  return (
    <Card title="Versions" isFlush>
      <Loaded query={query}>
        {({ versions }) =>
          versions.length === 0 ? (
            <Empty icon="history" title="Nothing is published yet">
              Publish the draft, so that runs execute a fixed version.
            </Empty>
          ) : (
            <Table
              label="Versions"
              rows={versions}
              keyOf={({ id }) => id}
              columns={[
                {
                  name: 'Version',
                  cell: ({ version_number: number }) => (
                    <span className="row">
                      {number} {number === pipeline.published_version && <Pill tone="good">published</Pill>}
                    </span>
                  ),
                },
                { name: 'Message', cell: (version) => version.message || <span className="muted">–</span> },
                { name: 'Published', cell: (version) => <Time at={version.created_at} /> },
                {
                  name: 'Actions',
                  cell: ({ version_number: number }) => (
                    <span className="row">
                      <Button size="small" onClick={() => setShown(number)}>
                        Look at {number}
                      </Button>
                      {number !== pipeline.published_version && (
                        <Button size="small" onClick={() => setChosen(number)}>
                          Roll back to {number}
                        </Button>
                      )}
                    </span>
                  ),
                },
              ]}
            />
          )
        }
      </Loaded>
      {shown !== null && (
        <Shown at={at} versions={query.data?.versions ?? []} number={shown} onClose={() => setShown(null)} />
      )}
      <FormDialog
        title={`Roll back to version ${chosen}`}
        description="Rolling back publishes the files of this version as a new one."
        isOpen={chosen !== null}
        onClose={() => {
          setChosen(null)
          setMessage('')
          setWithData(false)
        }}
        submitLabel="Roll back"
        submit={() => rollBack(at, body)}
      >
        <TextField
          label="Message (optional)"
          value={message}
          onChange={(event) => setMessage(event.target.value)}
        />
        <Checkbox
          label="Also restore the data that this version wrote last"
          checked={withData}
          onChange={(event) => setWithData(event.target.checked)}
        />
      </FormDialog>
    </Card>
  )
}

function Shown({
  at,
  versions,
  number,
  onClose,
}: {
  at: Named
  versions: readonly Version[]
  number: number
  onClose: () => void
}) {
  const version = versions.find((each) => each.version_number === number)
  const before = versions.find((each) => each.version_number === number - 1)
  return version && <VersionDialog at={at} version={version} before={before} onClose={onClose} />
}
