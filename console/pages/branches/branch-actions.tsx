import { useNavigate } from '@tanstack/react-router'
import { useId, useState } from 'react'
import { deleteBranch, mergeBranch, type Refusal, rebaseBranch } from '../../api/branches.ts'
import { Button, Checkbox, TextField } from '../../design/controls.tsx'
import { counted } from '../../design/format.ts'
import { FormDialog } from '../../design/overlay.tsx'
import { Pill, Status } from '../../design/status.tsx'
import { Table } from '../../design/table.tsx'
import { say } from '../../design/toasts.tsx'

interface ShownBranch {
  name: string
  commits_behind: number
  tables_changed: number
  drafts: readonly { pipeline: string }[]
}

/** Why the branch cannot merge now; null: it may. */
function obstacleOf({ tables_changed: tables }: ShownBranch, conflicts: number | null): string | null {
  if (tables === 0) return 'No table to merge'
  if (conflicts === null) return 'Comparing with main…'
  return conflicts === 0 ? null : `Conflict with main in ${counted(conflicts, 'table')}`
}

/** The actions on an open branch. `conflicts` is the number of tables that main has changed, too; null: not known yet. */
export function BranchActions({ branch, conflicts }: { branch: ShownBranch; conflicts: number | null }) {
  const reasonId = useId()
  const obstacle = obstacleOf(branch, conflicts)
  const [asked, setAsked] = useState<'merge' | 'rebase' | 'delete' | null>(null)
  const dialog = { branch, onClose: () => setAsked(null) }
  return (
    <>
      <Button icon="refresh" disabled={branch.commits_behind === 0} onClick={() => setAsked('rebase')}>
        Rebase
      </Button>
      <Button
        kind={obstacle === null ? 'primary' : 'plain'}
        icon="check"
        disabled={obstacle !== null}
        aria-describedby={obstacle === null ? undefined : reasonId}
        onClick={() => setAsked('merge')}
      >
        Merge
      </Button>
      {obstacle && (
        <small id={reasonId} className="muted">
          {obstacle}
        </small>
      )}
      <Button kind="danger" onClick={() => setAsked('delete')}>
        Delete
      </Button>
      <MergeDialog {...dialog} isOpen={asked === 'merge'} />
      <RebaseDialog {...dialog} isOpen={asked === 'rebase'} />
      <DeleteDialog {...dialog} isOpen={asked === 'delete'} />
    </>
  )
}

interface DialogProps {
  branch: ShownBranch
  isOpen: boolean
  onClose: () => void
}

/** A merge that the service refuses shows the tests and conflicts that stand against it. */
function MergeDialog({ branch: { name, drafts, tables_changed: tables }, isOpen, onClose }: DialogProps) {
  const [message, setMessage] = useState('')
  const [publishesDrafts, setPublishesDrafts] = useState(true)
  const [refusal, setRefusal] = useState<Refusal | null>(null)
  const submit = async () => {
    const { status, commit } = await mergeBranch(name, { message, publishesDrafts }, setRefusal)
    say(status === 'merged' ? `Merged as commit ${commit} of main` : 'The branch has no change')
  }
  return (
    <FormDialog
      title={`Merge ${name} into main`}
      description={`${counted(tables, 'table')} ${tables === 1 ? 'reaches' : 'reach'} main in one commit, after the published tests of each have passed.`}
      isOpen={isOpen}
      onClose={() => {
        setRefusal(null)
        onClose()
      }}
      submitLabel="Merge"
      submit={submit}
    >
      <TextField
        label="Message (optional)"
        value={message}
        onChange={(event) => setMessage(event.target.value)}
      />
      {drafts.length > 0 && (
        <>
          <p>
            Drafts that are not published made {counted(drafts.length, 'table')}. Without them, the next run
            into main executes other code.
          </p>
          <ul className="conflicts">
            {drafts.map(({ pipeline }) => (
              <li key={pipeline} className="mono">
                {pipeline}
              </li>
            ))}
          </ul>
          <Checkbox
            label="Publish these drafts with the merge, as their runs executed them"
            checked={publishesDrafts}
            onChange={(event) => setPublishesDrafts(event.target.checked)}
          />
        </>
      )}
      {refusal && <Refused refusal={refusal} />}
    </FormDialog>
  )
}

function RebaseDialog({ branch: { name, commits_behind: behind }, isOpen, onClose }: DialogProps) {
  const [refusal, setRefusal] = useState<Refusal | null>(null)
  const submit = async () => {
    const { base_commit: base } = await rebaseBranch(name, setRefusal)
    say(`The branch begins at commit ${base} of main`)
  }
  return (
    <FormDialog
      title={`Rebase ${name}`}
      description={`Main is ${counted(behind, 'commit')} ahead. Tables that the branch did not change become those of main.`}
      isOpen={isOpen}
      onClose={() => {
        setRefusal(null)
        onClose()
      }}
      submitLabel="Rebase the branch"
      submit={submit}
    >
      {refusal && <Refused refusal={refusal} />}
    </FormDialog>
  )
}

function Refused({ refusal: { conflicts = [], results = [] } }: { refusal: Refusal }) {
  return (
    <>
      {conflicts.length > 0 && (
        <section className="stack" aria-label="Conflicts">
          <h3>Changed on main and on this branch</h3>
          <ul className="conflicts">
            {conflicts.map((table) => (
              <li key={table}>
                <Pill tone="bad">conflict</Pill> <span className="mono">{table}</span>
              </li>
            ))}
          </ul>
        </section>
      )}
      {results.length > 0 && (
        <Table
          label="Results of the tests"
          rows={results}
          keyOf={({ table, name }) => `${table} ${name}`}
          columns={[
            { name: 'Result', cell: ({ status }) => <Status status={status} /> },
            {
              name: 'Test',
              cell: ({ name, table }) => (
                <>
                  {name}
                  <div className="muted mono">{table}</div>
                </>
              ),
            },
            { name: 'Failing rows', isNumeric: true, cell: ({ value }) => value },
            {
              name: 'Detail',
              cell: ({ error, samples }) => <span className="mono">{error ?? samples.join('; ')}</span>,
            },
          ]}
        />
      )}
    </>
  )
}

function DeleteDialog({ branch: { name }, isOpen, onClose }: DialogProps) {
  const navigate = useNavigate()
  return (
    <FormDialog
      title={`Delete ${name}`}
      description="Its changes are lost. Main stays as it is."
      isOpen={isOpen}
      onClose={onClose}
      submitLabel="Delete the branch"
      isDangerous
      submit={() => deleteBranch(name, () => navigate({ to: '/branches' }))}
    />
  )
}
