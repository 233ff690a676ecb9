import { useQuery } from '@tanstack/react-query'
import { Link, useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { createZone, zoneListQuery } from '../../api/landing-zones.ts'
import { Time } from '../../design/clock.tsx'
import { Button, TextField } from '../../design/controls.tsx'
import { bytes, count } from '../../design/format.ts'
import { Loaded } from '../../design/loaded.tsx'
import { FormDialog } from '../../design/overlay.tsx'
import { Card, Empty, Page } from '../../design/surfaces.tsx'
import { Table } from '../../design/table.tsx'

/** The places where files arrive. */
export default function ZoneList() {
  const navigate = useNavigate()
  const [isCreating, setCreating] = useState(false)
  const [form, setForm] = useState({ namespace: 'default', name: '', description: '' })
  const query = useQuery(zoneListQuery())
  const create = async () => {
    const { namespace: ns, name } = await createZone(form)
    await navigate({ to: '/landing-zones/$ns/$name', params: { ns, name } })
  }
  return (
    <Page
      title="Landing zones"
      subtitle="Files arrive here. A bronze pipeline reads them."
      actions={
        <Button kind="primary" icon="plus" onClick={() => setCreating(true)}>
          New landing zone
        </Button>
      }
    >
      <Card isFlush>
        <Loaded query={query}>
          {({ zones }) =>
            zones.length === 0 ? (
              <Empty
                icon="landing"
                title="No landing zone yet"
                actions={<Button onClick={() => setCreating(true)}>Make the first one</Button>}
              >
                Make a zone, drop a CSV, JSON or Parquet file into it, and read it with landing_zone() in a
                pipeline.
              </Empty>
            ) : (
              <Table
                label="Landing zones"
                rows={zones}
                keyOf={({ id }) => id}
                columns={[
                  {
                    name: 'Zone',
                    cell: ({ namespace: ns, name, description }) => (
                      <>
                        <Link to="/landing-zones/$ns/$name" params={{ ns, name }}>
                          {ns}.{name}
                        </Link>
                        {description && <div className="muted">{description}</div>}
                      </>
                    ),
                  },
                  { name: 'Files', isNumeric: true, cell: (zone) => count(zone.file_count) },
                  { name: 'Size', isNumeric: true, cell: (zone) => bytes(zone.total_bytes) },
                  { name: 'Made', cell: (zone) => <Time at={zone.created_at} /> },
                ]}
              />
            )
          }
        </Loaded>
      </Card>
      <FormDialog
        title="New landing zone"
        isOpen={isCreating}
        onClose={() => setCreating(false)}
        submitLabel="Create"
        submit={create}
      >
        <TextField
          label="Name"
          required
          value={form.name}
          onChange={(event) => setForm({ ...form, name: event.target.value })}
        />
        <TextField
          label="Namespace"
          required
          value={form.namespace}
          onChange={(event) => setForm({ ...form, namespace: event.target.value })}
        />
        <TextField
          label="Description"
          value={form.description}
          onChange={(event) => setForm({ ...form, description: event.target.value })}
        />
      </FormDialog>
    </Page>
  )
}
