import { useState } from 'react'
import { LAYERS } from '../../../ground/names.ts'

import { useNamespaces } from '../../api/namespaces.ts'
import { RUN_FILTERS, RUN_STATUSES } from '../../api/runs.ts'
import { Button, type Choice, Select, TextField } from '../../design/controls.tsx'
import { BranchSelect } from '../../fields/branch-select.tsx'
import type { FiltersOf } from '../../shell/filters.ts'

type Filters = FiltersOf<'/runs'>
const NONE: Filters = Object.fromEntries(RUN_FILTERS.map((name) => [name, '']))
/** The pattern of a pipeline's name in the API. */
const PIPELINE_NAME = '[a-z0-9][a-z0-9_\\-]*'

/** Each value is a sort key and a direction of the API. */
const ORDERS: readonly Choice[] = [
  { value: '', label: 'newest first' },
  { value: 'created_at asc', label: 'oldest first' },
  { value: 'duration_ms desc', label: 'longest first' },
  { value: 'duration_ms asc', label: 'shortest first' },
  { value: 'started_at desc', label: 'last started first' },
  { value: 'finished_at desc', label: 'last ended first' },
  { value: 'status asc', label: 'by status' },
  { value: 'trigger asc', label: 'by trigger' },
]

const choicesOf = (all: string, values: readonly string[]): Choice[] => [
  { value: '', label: all },
  ...values.map((value) => ({ value, label: value.replaceAll('_', ' ') })),
]

/** The filters of the list of runs. Each is a parameter of the address. */
export function RunFilters({ filters, change }: { filters: Filters; change: (changes: Filters) => void }) {
  const namespaces = useNamespaces(filters.namespace)
  const select = (
    name: (typeof RUN_FILTERS)[number],
    label: string,
    all: string,
    values: readonly string[],
  ) => (
    <Select
      label={label}
      value={filters[name] ?? ''}
      choices={choicesOf(all, values)}
      onChange={(value) => change({ [name]: value })}
    />
  )
  return (
    <div className="run-filters">
      {select('namespace', 'Namespace', 'all', namespaces)}
      {select('layer', 'Layer', 'all', LAYERS)}
      <PipelineFilter
        key={filters.pipeline}
        name={filters.pipeline ?? ''}
        onName={(pipeline) => change({ pipeline })}
      />
      <BranchSelect
        isLabelShown
        hasAll
        value={filters.branch ?? ''}
        onChange={(branch) => change({ branch })}
      />
      {select('status', 'Status', 'all', RUN_STATUSES)}
      <TimeFilter label="From" at={filters.from} onTime={(from) => change({ from })} />
      <TimeFilter label="To" at={filters.to} onTime={(to) => change({ to })} />
      <Select
        label="Order"
        value={[filters.sort, filters.order].filter(Boolean).join(' ')}
        choices={ORDERS}
        onChange={(value) => {
          const [sort = '', order = ''] = value.split(' ')
          change({ sort, order })
        }}
      />
      {RUN_FILTERS.some((name) => filters[name]) && (
        <Button kind="quiet" icon="close" onClick={() => change(NONE)}>
          Clear
        </Button>
      )}
    </div>
  )
}

/** The API finds exact names only, so a name counts when Enter is pressed or the field is left. */
function PipelineFilter({ name, onName }: { name: string; onName: (name: string) => void }) {
  const [text, setText] = useState(name)
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault()
        onName(text)
      }}
    >
      <TextField
        label="Pipeline"
        placeholder="exact name"
        pattern={PIPELINE_NAME}
        spellCheck={false}
        autoComplete="off"
        value={text}
        onChange={(event) => setText(event.target.value)}
        onBlur={({ currentTarget }) => {
          if (text !== name && currentTarget.validity.valid) onName(text)
        }}
      />
    </form>
  )
}

function TimeFilter({
  label,
  at,
  onTime,
}: {
  label: string
  at: string | undefined
  onTime: (at: string) => void
}) {
  return (
    <TextField
      label={label}
      type="datetime-local"
      value={at === undefined ? '' : localOf(at)}
      onChange={({ target }) => onTime(target.value === '' ? '' : new Date(target.value).toISOString())}
    />
  )
}

/** An instant as the field shows it: in the time zone of the browser, to the minute. */
function localOf(at: string): string {
  const date = new Date(at)
  if (Number.isNaN(date.getTime())) return ''
  const local = new Date(date.getTime() - date.getTimezoneOffset() * 60_000)
  return local.toISOString().slice(0, 16)
}
