import { useQuery } from '@tanstack/react-query'
import { Link, useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import {
  BRANCH_STATUSES,
  branchListQuery,
  branchStatusIn,
  createBranch,
  type ListedBranch,
} from '../../api/branches.ts'
import { Time } from '../../design/clock.tsx'
import { Button, SearchField, Select, TextField } from '../../design/controls.tsx'
import { count } from '../../design/format.ts'
import { Loaded } from '../../design/loaded.tsx'
import { FormDialog } from '../../design/overlay.tsx'
import { Status } from '../../design/status.tsx'
import { Card, Empty, Page } from '../../design/surfaces.tsx'
import { Table } from '../../design/table.tsx'
import { useFilters } from '../../shell/filters.ts'
import { usePager } from '../../shell/paging.tsx'
import { Tags } from './tags.tsx'

/** Branches of the lake, and tags. */
export default function BranchList() {
  const [filters, change] = useFilters('/branches')
  const [isCreating, setCreating] = useState(false)
  const { search = '' } = filters
  const pager = usePager()
  const query = useQuery(branchListQuery(filters))
  return (
    <Page
      title="Branches"
      subtitle="A branch shows the whole lake with changes of its own. Merging is atomic."
      actions={
        <Button kind="primary" icon="plus" onClick={() => setCreating(true)}>
          New branch
        </Button>
      }
    >
      <Card
        isFlush
        actions={
          <>
            <SearchField
              label="Search branches"
              value={search}
              onChange={(value) => change({ search: value, offset: '' })}
            />
            <Select
              label="Status"
              isLabelShown={false}
              value={branchStatusIn(filters.status) ?? 'open'}
              choices={BRANCH_STATUSES.map((value) => ({ value, label: value }))}
              onChange={(value) => change({ status: value, offset: '' })}
            />
          </>
        }
      >
        <Loaded query={query}>
          {({ branches, total }) =>
            total === 0 ? (
              <Empty icon="branches" title="No such branch">
                Make a branch to try a change on real data without touching main.
              </Empty>
            ) : (
              <>
                <BranchTable branches={branches} />
                {pager(total)}
              </>
            )
          }
        </Loaded>
      </Card>
      <Tags />
      <CreateBranch isOpen={isCreating} onClose={() => setCreating(false)} />
    </Page>
  )
}

const BranchTable = ({ branches }: { branches: readonly ListedBranch[] }) => (
  <Table
    label="Branches"
    rows={branches}
    keyOf={({ name, created_at: at }) => `${name} ${at}`}
    columns={[
      {
        name: 'Branch',
        cell: ({ name, description }) => (
          <>
            <Link to="/branches/$branch" params={{ branch: name }}>
              {name}
            </Link>
            {description && <div className="muted">{description}</div>}
          </>
        ),
      },
      { name: 'Status', cell: ({ status, is_idle: isIdle }) => <Status status={isIdle ? 'idle' : status} /> },
      { name: 'Ahead', isNumeric: true, cell: (branch) => count(branch.commits_ahead) },
      { name: 'Behind', isNumeric: true, cell: (branch) => count(branch.commits_behind) },
      { name: 'Tables changed', isNumeric: true, cell: (branch) => count(branch.tables_changed) },
      { name: 'Changed', cell: (branch) => <Time at={branch.updated_at} /> },
    ]}
  />
)

function CreateBranch({ isOpen, onClose }: { isOpen: boolean; onClose: () => void }) {
  const navigate = useNavigate()
  const [name, setName] = useState('')
  const [commit, setCommit] = useState('')
  const [description, setDescription] = useState('')
  const create = async () => {
    const body = { name, ...(commit && { as_of: Number(commit) }), ...(description && { description }) }
    await createBranch(body)
    await navigate({ to: '/branches/$branch', params: { branch: name } })
  }
  return (
    <FormDialog title="New branch" isOpen={isOpen} onClose={onClose} submitLabel="Create" submit={create}>
      <TextField label="Name" required value={name} onChange={(event) => setName(event.target.value)} />
      <TextField
        label="Commit of main (optional)"
        hint="Empty: the present state"
        inputMode="numeric"
        pattern="\d*"
        value={commit}
        onChange={(event) => setCommit(event.target.value)}
      />
      <TextField
        label="Description"
        value={description}
        onChange={(event) => setDescription(event.target.value)}
      />
    </FormDialog>
  )
}
