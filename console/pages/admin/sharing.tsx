import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { api, ok } from '../../api/client.ts'
import { queryClient } from '../../api/queries.ts'
import { Time } from '../../design/clock.tsx'
import { Button, IconButton, SearchField, Select, TextField } from '../../design/controls.tsx'
import { Loaded } from '../../design/loaded.tsx'
import { FormDialog } from '../../design/overlay.tsx'
import { Tag } from '../../design/status.tsx'
import { Card, Empty, Page } from '../../design/surfaces.tsx'
import { Table } from '../../design/table.tsx'
import { performing, say } from '../../design/toasts.tsx'
import { useFilters } from '../../shell/filters.ts'

/** Rights of users on pipelines, namespaces and landing zones: an edition with users has them. */
export default function Sharing() {
  const features = useQuery({ queryKey: ['features'], queryFn: () => ok(api.features.get()) })
  return (
    <Page title="Sharing" subtitle="Who may read, write and administer a resource.">
      <Card isFlush>
        <Loaded query={features}>
          {({ edition, plugins }) =>
            plugins.sharing.enabled ? (
              <Shared />
            ) : edition === 'pro' ? (
              <Empty icon="sharing" title="A plugin decides on rights here">
                Its own tools show and change the rights of users.
              </Empty>
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

interface Resource {
  id: string
  name: string
  owner: string | null
}

/** Pipelines in the list of choices: the largest page of the API. The search finds others. */
const PIPELINES_LISTED = 200

const KINDS = {
  pipeline: {
    label: 'Pipeline',
    list: async (search: string): Promise<Resource[]> => {
      const { pipelines } = await ok(
        api.pipelines.get({ query: { ...(search && { search }), limit: String(PIPELINES_LISTED) } }),
      )
      return pipelines.map((pipeline) => ({
        ...pipeline,
        name: `${pipeline.namespace}.${pipeline.layer}.${pipeline.name}`,
      }))
    },
  },
  namespace: {
    label: 'Namespace',
    list: async (search: string): Promise<Resource[]> =>
      (await ok(api.namespaces.get({ query: {} }))).namespaces.filter(({ name }) => name.includes(search)),
  },
  landing_zone: {
    label: 'Landing zone',
    list: async (search: string): Promise<Resource[]> =>
      (await ok(api['landing-zones'].get({ query: {} }))).zones
        .map((zone) => ({ ...zone, name: `${zone.namespace}.${zone.name}` }))
        .filter(({ name }) => name.includes(search)),
  },
} as const
type Kind = keyof typeof KINDS
const isKind = (text: string | undefined): text is Kind => text !== undefined && Object.hasOwn(KINDS, text)

/** One resource with its owner and its grants. The choice is in the address. */
function Shared() {
  const [filters, change] = useFilters()
  const kind = isKind(filters.kind) ? filters.kind : 'pipeline'
  const { id = '', search = '' } = filters
  const resources = useQuery({
    queryKey: ['sharing', 'resources', kind, search],
    queryFn: () => KINDS[kind].list(search),
    placeholderData: keepPreviousData,
  })
  const shown = resources.data?.find((resource) => resource.id === id)
  return (
    <>
      <div className="card-body row sharing-choice">
        <Select
          label="Kind"
          value={kind}
          choices={Object.entries(KINDS).map(([value, { label }]) => ({ value, label }))}
          onChange={(value) => change({ kind: value, id: '', search: '' })}
        />
        <Select
          label={KINDS[kind].label}
          value={shown?.id ?? ''}
          choices={[
            { value: '', label: 'Choose' },
            ...(resources.data ?? []).map((resource) => ({ value: resource.id, label: resource.name })),
          ]}
          onChange={(value) => change({ id: value })}
        />
        <SearchField label="Search by name" value={search} onChange={(value) => change({ search: value })} />
      </div>
      <Loaded query={resources}>
        {(all) =>
          shown ? (
            <Grants kind={kind} resource={shown} />
          ) : (
            <Empty
              icon="sharing"
              title={all.length === 0 ? 'Nothing to share here' : 'No resource is chosen'}
            >
              {all.length === 0
                ? 'You see resources that you own or that somebody shares with you.'
                : 'Choose a resource to see its owner and its grants.'}
            </Empty>
          )
        }
      </Loaded>
    </>
  )
}

const PERMISSIONS = ['read', 'write', 'admin'] as const
type Permission = (typeof PERMISSIONS)[number]

function Grants({ kind, resource }: { kind: Kind; resource: Resource }) {
  const [asked, setAsked] = useState<'grant' | 'transfer' | null>(null)
  const close = () => setAsked(null)
  const { id, name, owner } = resource
  const query = useQuery({
    queryKey: ['sharing', 'grants', kind, id],
    queryFn: () => ok(api.sharing.get({ query: { resource_type: kind, resource_id: id } })),
  })
  return (
    <>
      <div className="card-body row">
        <span className="sharing-owner">
          Owner: <b>{owner ?? 'nobody'}</b>
        </span>
        <Button icon="plus" onClick={() => setAsked('grant')}>
          Grant
        </Button>
        {kind === 'pipeline' && <Button onClick={() => setAsked('transfer')}>Transfer ownership</Button>}
      </div>
      <Loaded query={query}>
        {({ grants }) =>
          grants.length === 0 ? (
            <Empty icon="sharing" title="No grants">
              You see all grants if you may administer the resource, and otherwise those that you gave or
              received.
            </Empty>
          ) : (
            <Table
              label="Grants"
              rows={grants}
              keyOf={(grant) => grant.id}
              columns={[
                { name: 'User', cell: (grant) => <b>{grant.grantee_id}</b> },
                { name: 'May', cell: (grant) => <Tag>{grant.permission}</Tag> },
                { name: 'Granted by', cell: (grant) => grant.grantor_id || 'a key' },
                { name: 'When', cell: (grant) => <Time at={grant.created_at} /> },
                {
                  name: 'Actions',
                  cell: (grant) => (
                    <IconButton
                      icon="cross"
                      size="small"
                      label={`Revoke the grant of ${grant.grantee_id}`}
                      onClick={() =>
                        void performing(
                          ok(api.sharing({ id: grant.id }).delete()).then(refresh),
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
      <GrantDialog isOpen={asked === 'grant'} onClose={close} kind={kind} resource={resource} />
      <TransferDialog isOpen={asked === 'transfer'} onClose={close} id={id} name={name} />
    </>
  )
}

const refresh = () => queryClient.invalidateQueries({ queryKey: ['sharing'] })

const USER_HINT = 'The subject of the access tokens of this user'

function GrantDialog({
  isOpen,
  onClose,
  kind,
  resource,
}: {
  isOpen: boolean
  onClose: () => void
  kind: Kind
  resource: Resource
}) {
  const [user, setUser] = useState('')
  const [permission, setPermission] = useState<Permission>('read')
  return (
    <FormDialog
      title="Grant access"
      description={resource.name}
      isOpen={isOpen}
      onClose={onClose}
      submitLabel="Grant"
      submit={async () => {
        await ok(
          api.sharing.post({ grantee_id: user, resource_type: kind, resource_id: resource.id, permission }),
        )
        setUser('')
        await refresh()
      }}
    >
      <TextField
        label="User"
        hint={USER_HINT}
        required
        value={user}
        onChange={(event) => setUser(event.target.value)}
      />
      <Select
        label="May"
        value={permission}
        choices={PERMISSIONS.map((value) => ({ value, label: value }))}
        onChange={(value) => setPermission(value as Permission)}
      />
    </FormDialog>
  )
}

function TransferDialog({
  isOpen,
  onClose,
  id,
  name,
}: {
  isOpen: boolean
  onClose: () => void
  id: string
  name: string
}) {
  const [user, setUser] = useState('')
  return (
    <FormDialog
      title="Transfer ownership"
      description={`${name} gets a new owner. The present owner then has only grants below admin, and cannot undo this.`}
      isOpen={isOpen}
      onClose={onClose}
      submitLabel="Transfer"
      isDangerous
      submit={async () => {
        await ok(api.sharing.transfer.post({ resource_type: 'pipeline', resource_id: id, to_user_id: user }))
        setUser('')
        say(`${name} belongs to ${user}`)
        await Promise.all([refresh(), queryClient.invalidateQueries({ queryKey: ['pipelines'] })])
      }}
    >
      <TextField
        label="New owner"
        hint={USER_HINT}
        required
        value={user}
        onChange={(event) => setUser(event.target.value)}
      />
    </FormDialog>
  )
}
