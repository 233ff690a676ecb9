import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { api, ok } from '../../api/client.ts'
import { queryClient } from '../../api/queries.ts'
import { Time } from '../../design/clock.tsx'
import { Button, IconButton, Select, TextField } from '../../design/controls.tsx'
import { Loaded } from '../../design/loaded.tsx'
import { FormDialog } from '../../design/overlay.tsx'
import { Tag } from '../../design/status.tsx'
import { Card, Empty, Page } from '../../design/surfaces.tsx'
import { Table } from '../../design/table.tsx'
import { performing } from '../../design/toasts.tsx'
import { useFilters } from '../../shell/filters.ts'

/** Rights of users on pipelines: an edition with users has them. */
export default function Sharing() {
  const features = useQuery({ queryKey: ['features'], queryFn: () => ok(api.features.get()) })
  return (
    <Page title="Sharing" subtitle="Who may read, write and administer a pipeline.">
      <Card isFlush>
        <Loaded query={features}>
          {({ edition }) =>
            edition === 'pro' ? (
              <Grants />
            ) : (
              <Empty icon="sharing" title="This edition has one role">
                In the community edition everyone with access to the service may do everything. The Pro
                edition has owners and grants.
              </Empty>
            )
          }
        </Loaded>
      </Card>
    </Page>
  )
}

const PERMISSIONS = ['read', 'write', 'admin'] as const

function Grants() {
  const [filters, change] = useFilters()
  const [isGranting, setGranting] = useState(false)
  const [form, setForm] = useState({ user: '', permission: 'read' as (typeof PERMISSIONS)[number] })
  const { pipeline = '' } = filters
  const pipelines = useQuery({
    queryKey: ['pipelines', 'names'],
    queryFn: () => ok(api.pipelines.get({ query: { limit: '200' } })),
  })
  const query = useQuery({
    queryKey: ['grants', pipeline],
    queryFn: () => ok(api.sharing.get({ query: { resource_type: 'pipeline', resource_id: pipeline } })),
    enabled: pipeline !== '',
  })
  const refresh = () => queryClient.invalidateQueries({ queryKey: ['grants'] })
  return (
    <>
      <div className="card-body row">
        <Select
          label="Pipeline"
          value={pipeline}
          choices={[
            { value: '', label: 'Choose a pipeline' },
            ...(pipelines.data?.pipelines ?? []).map(({ id, namespace, layer, name }) => ({
              value: id,
              label: `${namespace}.${layer}.${name}`,
            })),
          ]}
          onChange={(value) => change({ pipeline: value })}
        />
        <Button disabled={pipeline === ''} icon="plus" onClick={() => setGranting(true)}>
          Grant
        </Button>
      </div>
      {pipeline !== '' && (
        <Loaded query={query}>
          {({ grants }) =>
            grants.length === 0 ? (
              <Empty icon="sharing" title="Only its owner may use this pipeline" />
            ) : (
              <Table
                label="Grants"
                rows={grants}
                keyOf={({ id }) => id}
                columns={[
                  { name: 'User', cell: (grant) => <b>{grant.grantee_id}</b> },
                  { name: 'May', cell: (grant) => <Tag>{grant.permission}</Tag> },
                  { name: 'Granted by', cell: (grant) => grant.grantor_id || 'a key' },
                  { name: 'When', cell: (grant) => <Time at={grant.created_at} /> },
                  {
                    name: 'Actions',
                    cell: ({ id, grantee_id: user }) => (
                      <IconButton
                        icon="cross"
                        size="small"
                        label={`Revoke the grant of ${user}`}
                        onClick={() =>
                          void performing(
                            ok(api.sharing({ id }).delete()).then(refresh),
                            'The grant is revoked',
                          )
                        }
                      />
                    ),
                  },
                ]}
              />
            )
          }
        </Loaded>
      )}
      <FormDialog
        title="Grant access"
        isOpen={isGranting}
        onClose={() => setGranting(false)}
        submitLabel="Grant"
        submit={() =>
          ok(
            api.sharing.post({
              grantee_id: form.user,
              resource_type: 'pipeline',
              resource_id: pipeline,
              permission: form.permission,
            }),
          ).then(refresh)
        }
      >
        <TextField
          label="User"
          required
          value={form.user}
          onChange={(event) => setForm({ ...form, user: event.target.value })}
        />
        <Select
          label="May"
          value={form.permission}
          choices={PERMISSIONS.map((value) => ({ value, label: value }))}
          onChange={(value) => setForm({ ...form, permission: value as (typeof PERMISSIONS)[number] })}
        />
      </FormDialog>
    </>
  )
}
