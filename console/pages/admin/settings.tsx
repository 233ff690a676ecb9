import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { buildQuery, featuresQuery } from '../../api/installation.ts'
import { createNamespace, deleteNamespace, namespacesQuery } from '../../api/namespaces.ts'
import { Time } from '../../design/clock.tsx'
import { Button, IconButton, Segments, TextField } from '../../design/controls.tsx'
import { Loaded } from '../../design/loaded.tsx'
import { FormDialog } from '../../design/overlay.tsx'
import { Card, Facts, Page } from '../../design/surfaces.tsx'
import { Table } from '../../design/table.tsx'
import { SignedIn, useCaller } from '../../shell/signed-in.tsx'
import { chooseTheme, type Theme, useTheme } from '../../shell/theme.ts'

const THEMES: readonly { value: Theme; label: string }[] = [
  { value: 'auto', label: 'System' },
  { value: 'light', label: 'Light' },
  { value: 'dark', label: 'Dark' },
]

/** This installation, this browser, and the namespaces. */
export default function Settings() {
  const theme = useTheme()
  const caller = useCaller()
  return (
    <Page title="Settings">
      <div className="run-grid">
        <Card title="This browser">
          <Facts
            facts={[
              [
                'Colours',
                <Segments
                  key="theme"
                  label="Colours"
                  value={theme}
                  choices={THEMES}
                  onChange={chooseTheme}
                />,
              ],
              [
                'Signed in as',
                caller === null ? 'nobody: the service asks for no credential' : <SignedIn key="caller" />,
              ],
            ]}
          />
        </Card>
        <Card title="This installation">
          <Installation />
        </Card>
      </div>
      <Namespaces />
    </Page>
  )
}

function Installation() {
  const features = useQuery(featuresQuery())
  const build = useQuery(buildQuery())
  return (
    <Loaded query={features}>
      {({ edition, plugins, license }) => (
        <Facts
          facts={[
            ['Edition', edition],
            ['Version', build.data?.version ?? '…'],
            ['Commit', <code key="commit">{build.data?.git_commit.slice(0, 12)}</code>],
            ...(license
              ? ([['Licence', `${license.type}, until ${license.expires_at.slice(0, 10)}`]] as const)
              : []),
            ...Object.entries(plugins).map(
              ([name, plugin]) => [`Plugin ${name}`, plugin.enabled ? 'on' : 'off'] as const,
            ),
          ]}
        />
      )}
    </Loaded>
  )
}

function Namespaces() {
  const [isCreating, setCreating] = useState(false)
  const [removed, setRemoved] = useState<string | null>(null)
  const [form, setForm] = useState({ name: '', description: '' })
  const query = useQuery(namespacesQuery())
  return (
    <Card
      title="Namespaces"
      isFlush
      actions={
        <Button size="small" icon="plus" onClick={() => setCreating(true)}>
          New namespace
        </Button>
      }
    >
      <Loaded query={query}>
        {({ namespaces }) => (
          <Table
            label="Namespaces"
            rows={namespaces}
            keyOf={({ id }) => id}
            columns={[
              { name: 'Name', cell: ({ name }) => <b>{name}</b> },
              {
                name: 'Description',
                cell: ({ description }) => description || <span className="muted">–</span>,
              },
              { name: 'Owner', cell: ({ owner }) => owner ?? '–' },
              { name: 'Made', cell: (namespace) => <Time at={namespace.created_at} /> },
              {
                name: 'Actions',
                cell: ({ name }) => (
                  <IconButton
                    icon="cross"
                    size="small"
                    label={`Delete ${name}`}
                    onClick={() => setRemoved(name)}
                  />
                ),
              },
            ]}
          />
        )}
      </Loaded>
      <FormDialog
        title="New namespace"
        isOpen={isCreating}
        onClose={() => setCreating(false)}
        submitLabel="Create"
        submit={async () => {
          await createNamespace(form)
          setForm({ name: '', description: '' })
        }}
      >
        <TextField
          label="Name"
          required
          value={form.name}
          onChange={(event) => setForm({ ...form, name: event.target.value })}
        />
        <TextField
          label="Description"
          value={form.description}
          onChange={(event) => setForm({ ...form, description: event.target.value })}
        />
      </FormDialog>
      <FormDialog
        title={`Delete the namespace ${removed}`}
        description="Only an empty namespace can be deleted."
        isOpen={removed !== null}
        onClose={() => setRemoved(null)}
        submitLabel="Delete"
        isDangerous
        submit={() => deleteNamespace(removed ?? '')}
      />
    </Card>
  )
}
