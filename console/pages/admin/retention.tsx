import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import {
  changeRetention,
  type Removal,
  removeNow,
  retentionConfigQuery,
  retentionStatusQuery,
  wouldRemove,
} from '../../api/retention.ts'
import { Time } from '../../design/clock.tsx'
import { Button, TextField } from '../../design/controls.tsx'
import { bytes, count } from '../../design/format.ts'
import { Loaded } from '../../design/loaded.tsx'
import { FormDialog } from '../../design/overlay.tsx'
import { Card, Empty, Facts, Notice, Page } from '../../design/surfaces.tsx'
import { Table } from '../../design/table.tsx'
import { performing, say, sayError } from '../../design/toasts.tsx'

/** How long things stay, what the next tick removes, and a tick now. */
export default function Retention() {
  const [isAsked, setAsked] = useState(false)
  const [removals, setRemovals] = useState<readonly Removal[] | null>(null)
  const [isBusy, setBusy] = useState(false)
  const look = async () => {
    setBusy(true)
    try {
      setRemovals(await wouldRemove())
    } catch (error) {
      sayError(error)
    } finally {
      setBusy(false)
    }
  }
  return (
    <Page
      title="Retention"
      subtitle="The reaper removes what is older than these settings."
      actions={
        <>
          <Button icon="search" disabled={isBusy} onClick={() => void look()}>
            {isBusy ? 'Looking…' : 'What would go?'}
          </Button>
          <Button kind="danger" onClick={() => setAsked(true)}>
            Remove now
          </Button>
        </>
      }
    >
      {removals !== null && <WouldGo removals={removals} />}
      <Status />
      <Settings onSaved={() => setRemovals(null)} />
      <FormDialog
        title="Remove now"
        description="The reaper removes at once what the settings allow. Removed data cannot be restored."
        isOpen={isAsked}
        onClose={() => setAsked(false)}
        submitLabel="Remove now"
        isDangerous
        submit={async () => {
          await removeNow()
          setRemovals(null)
          say('The reaper has ended: the last tick shows what it removed')
        }}
      />
    </Page>
  )
}

const WouldGo = ({ removals }: { removals: readonly Removal[] }) => (
  <Card title="What would go now" isFlush>
    {removals.every(({ total }) => total === 0) ? (
      <Empty icon="check" title="Nothing is old enough" />
    ) : (
      <Table
        label="What would go"
        rows={removals.filter(({ total }) => total > 0)}
        keyOf={({ duty, kind }) => `${duty} ${kind}`}
        columns={[
          { name: 'Duty', cell: ({ duty }) => duty },
          { name: 'Kind', cell: ({ kind }) => kind.replaceAll('_', ' ') },
          { name: 'Number', isNumeric: true, cell: ({ total }) => count(total) },
          { name: 'Size', isNumeric: true, cell: ({ size_bytes: size }) => bytes(size) },
          { name: 'For example', cell: ({ items }) => <code>{items.slice(0, 3).join(', ')}</code> },
        ]}
      />
    )}
  </Card>
)

/** Two names in the API are of its first release. No other page uses their words. */
const labelOf = (name: string): string =>
  name.replace('nessie_orphan', 'abandoned').replace('lz_files', 'landing_files').replaceAll('_', ' ')

function Status() {
  const query = useQuery(retentionStatusQuery())
  return (
    <Card title="Last tick">
      <Loaded query={query}>
        {({ last_run_at: at, updated_at: _, failures, ...counters }) => (
          <div className="stack">
            {failures.map((failure) => (
              <Notice tone="bad" key={failure}>
                {failure}
              </Notice>
            ))}
            <Facts
              facts={[
                ['When', <Time key="at" at={at} />],
                ...Object.entries(counters).map(
                  ([name, value]) => [labelOf(name), count(Number(value))] as const,
                ),
              ]}
            />
          </div>
        )}
      </Loaded>
    </Card>
  )
}

function Settings({ onSaved }: { onSaved: () => void }) {
  const [changes, setChanges] = useState<Record<string, string>>({})
  const query = useQuery(retentionConfigQuery())
  const save = async () => {
    const numbers = Object.fromEntries(Object.entries(changes).map(([name, value]) => [name, Number(value)]))
    const isDone = await performing(changeRetention(numbers), 'The settings are saved')
    if (!isDone) return
    onSaved()
    // Changes that the person made meanwhile stay.
    setChanges((now) =>
      Object.fromEntries(Object.entries(now).filter(([name, value]) => value !== changes[name])),
    )
  }
  return (
    <Card title="Settings">
      <Loaded query={query}>
        {({ config }) => (
          <form
            className="stack"
            onSubmit={(event) => {
              event.preventDefault()
              void save()
            }}
          >
            <div className="settings">
              {Object.entries(config).map(([name, value]) => (
                <TextField
                  key={name}
                  label={labelOf(name)}
                  type="number"
                  min={0}
                  required
                  value={changes[name] ?? String(value)}
                  onChange={(event) => setChanges({ ...changes, [name]: event.target.value })}
                />
              ))}
            </div>
            <div>
              <Button type="submit" kind="primary" disabled={Object.keys(changes).length === 0}>
                Save
              </Button>
            </div>
          </form>
        )}
      </Loaded>
    </Card>
  )
}
