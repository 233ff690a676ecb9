import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { featuresQuery } from '../../api/installation.ts'
import {
  grant,
  grantsQuery,
  PERMISSIONS,
  type Permission,
  type Resource,
  type ResourceKind,
  resourcesQuery,
  revoke,
  transferPipeline,
} from '../../api/sharing.ts'
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
  const features = useQuery(featuresQuery())
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

const KINDS: Record<ResourceKind, string> = {
  pipeline: 'Pipeline',
  namespace: 'Namespace',
  landing_zone: 'Landing zone',
}
const isKind = (text: string | undefined): text is ResourceKind =>
  text !== undefined && Object.hasOwn(KINDS, text)

/** One resource with its owner and its grants. The choice is in the address. */
function Shared() {
  const [filters, change] = useFilters('/sharing')
  const kind = isKind(filters.kind) ? filters.kind : 'pipeline'
  const { id = '', search = '' } = filters
  const resources = useQuery(resourcesQuery(kind, search))
  const shown = resources.data?.find((resource) => resource.id === id)
  return (
    <>
      <div className="card-body row sharing-choice">
        <Select
          label="Kind"
          value={kind}
          choices={Object.entries(KINDS).map(([value, label]) => ({ value, label }))}
          onChange={(value) => change({ kind: value, id: '', search: '' })}
        />
        <Select
          label={KINDS[kind]}
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

function Grants({ kind, resource }: { kind: ResourceKind; resource: Resource }) {
  const [asked, setAsked] = useState<'grant' | 'transfer' | null>(null)
  const close = () => setAsked(null)
  const { id, name, owner } = resource
  const query = useQuery(grantsQuery(kind, id))
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
              keyOf={({ id: each }) => each}
              columns={[
                { name: 'User', cell: (each) => <b>{each.grantee_id}</b> },
                { name: 'May', cell: (each) => <Tag>{each.permission}</Tag> },
                { name: 'Granted by', cell: (each) => each.grantor_id || 'a key' },
                { name: 'When', cell: (each) => <Time at={each.created_at} /> },
                {
                  name: 'Actions',
                  cell: (each) => (
                    <IconButton
                      icon="cross"
                      size="small"
                      label={`Revoke the grant of ${each.grantee_id}`}
                      onClick={() => void performing(revoke(each.id), 'The grant is revoked')}
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

const USER_HINT = 'The subject of the access tokens of this user'

function GrantDialog({
  isOpen,
  onClose,
  kind,
  resource,
}: {
  isOpen: boolean
  onClose: () => void
  kind: ResourceKind
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
        await grant(kind, resource.id, user, permission)
        setUser('')
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
        await transferPipeline(id, user)
        setUser('')
        say(`${name} belongs to ${user}`)
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
