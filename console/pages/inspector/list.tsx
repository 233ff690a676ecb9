import { useQueries, useQuery } from '@tanstack/react-query'
import { Link, useParams } from '@tanstack/react-router'
import { useEffect, useRef } from 'react'
import { LAYERS } from '../../../ground/names.ts'

import {
  type Counts,
  type Definition,
  INSTANCE_FILTERS,
  INSTANCE_PAGE_ROWS,
  type InstanceFilter,
  instancesQuery,
  type Listed,
  type MachineName,
  useLiveInstances,
} from '../../api/inspector.ts'
import { useNamespaces } from '../../api/namespaces.ts'
import { Time } from '../../design/clock.tsx'
import { Button, SearchField, Select } from '../../design/controls.tsx'
import { duration } from '../../design/format.ts'
import { Loaded } from '../../design/loaded.tsx'
import { Card, Empty } from '../../design/surfaces.tsx'
import { type RowFocus, type VirtualColumn, VirtualTable } from '../../design/virtual-table.tsx'
import { useFilters } from '../../shell/filters.ts'
import { isShortcut } from '../../shell/keys.ts'
import { useSight } from '../../shell/sight.ts'
import { machineOf } from './address.ts'
import { InspectorFrame } from './frame.tsx'
import { lastLists } from './last-lists.ts'
import { countText, leavesOf, StatePill, sumOf, TITLES } from './state.tsx'

const SEARCH_MS = 200
/** Browsers show no higher elements. A search finds the others. */
const SHOWN_MAX = 200_000
const ROWS_PER_PAGE_KEY = 10

/** The instances of a machine. The service searches and counts. */
export default function InstanceList() {
  const machine = machineOf(useParams({ from: '/inspector/$machine' }).machine)
  const [filters, change] = useFilters('/inspector/$machine')
  const filter: InstanceFilter = filters
  lastLists.set(machine, filter)
  const connection = useLiveInstances(machine)
  const { head, rowAt, onVisible } = useInstances(machine, filter)
  const pick = (state: string) => change({ state: filter.state === state ? '' : state })
  return (
    <InspectorFrame
      machine={machine}
      title="Inspector"
      subtitle="States and histories of runs, drafts and triggers."
      connection={connection}
      chart={(definition) => ({
        title: TITLES[machine],
        caption: `${definition.summary} Click a state to list its instances.`,
        lit: { active: filter.state ?? null, taken: null },
        counts: head.data?.counts ?? null,
        onPick: pick,
      })}
    >
      {(definition) => (
        <Card isFlush>
          <InstanceFilters filter={filter} change={change} />
          <Loaded query={head}>
            {({ counts, total, total_is_exact }) => (
              <>
                <States
                  machine={machine}
                  definition={definition}
                  counts={counts}
                  chosen={filter.state ?? ''}
                  onChoose={(state) => change({ state })}
                />
                <p className="instance-summary muted" role="status">
                  {countText({ count: total, more: !total_is_exact })}{' '}
                  {total === 1 ? machine : TITLES[machine].toLowerCase()}
                  {filter.state && ` in ${filter.state}`}
                </p>
                {total === 0 ? (
                  <NoInstances machine={machine} filter={filter} change={change} />
                ) : (
                  <InstanceTable
                    key={JSON.stringify([machine, filter])}
                    machine={machine}
                    total={Math.min(total, SHOWN_MAX)}
                    rowAt={rowAt}
                    onVisible={onVisible}
                  />
                )}
              </>
            )}
          </Loaded>
        </Card>
      )}
    </InspectorFrame>
  )
}

/** The pages of the list that are in sight. The first page is always read, because it has the numbers. */
function useInstances(machine: MachineName, filter: InstanceFilter) {
  const { pages, onVisible } = useSight(JSON.stringify([machine, filter]), INSTANCE_PAGE_ROWS)
  const head = useQuery(instancesQuery(machine, filter, 0))
  const later = pages.filter((page) => page > 0)
  const others = useQueries({ queries: later.map((page) => instancesQuery(machine, filter, page)) })
  const rowAt = (index: number): Listed | undefined => {
    const page = Math.floor(index / INSTANCE_PAGE_ROWS)
    const { data } = page === 0 ? head : (others[later.indexOf(page)] ?? {})
    return data?.instances[index % INSTANCE_PAGE_ROWS]
  }
  return { head, rowAt, onVisible }
}

type Change = (changes: InstanceFilter) => void

function InstanceFilters({ filter, change }: { filter: InstanceFilter; change: Change }) {
  const typing = useRef<ReturnType<typeof setTimeout>>(undefined)
  useEffect(() => () => clearTimeout(typing.current), [])
  const { namespace = '', layer = '', q = '' } = filter
  const names = useNamespaces(namespace)
  return (
    <div className="instance-filters">
      <SearchField
        label="Pipeline or id"
        value={q}
        onChange={(text) => {
          clearTimeout(typing.current)
          typing.current = setTimeout(() => change({ q: text.trim() }), SEARCH_MS)
        }}
      />
      <Select
        label="Namespace"
        isLabelShown={false}
        value={namespace}
        choices={[
          { value: '', label: 'All namespaces' },
          ...names.map((name) => ({ value: name, label: name })),
        ]}
        onChange={(value) => change({ namespace: value })}
      />
      <Select
        label="Layer"
        isLabelShown={false}
        value={layer}
        choices={[
          { value: '', label: 'All layers' },
          ...LAYERS.map((name) => ({ value: name, label: name })),
        ]}
        onChange={(value) => change({ layer: value })}
      />
    </div>
  )
}

/** A button for each state, with the number of its instances. */
function States({
  machine,
  definition,
  counts,
  chosen,
  onChoose,
}: {
  machine: MachineName
  definition: Definition
  counts: Counts
  chosen: string
  onChoose: (state: string) => void
}) {
  const leaves = leavesOf(definition)
  return (
    <div className="state-chips" role="group" aria-label="States">
      {['', ...leaves].map((state) => {
        const counted = sumOf(counts, state === '' ? leaves : [state])
        return (
          <button
            type="button"
            key={state}
            className="state-chip"
            data-chip={state}
            data-empty={counted.count === 0}
            aria-pressed={chosen === state}
            onClick={() => onChoose(state)}
          >
            {state === '' ? 'All' : <StatePill machine={machine} path={state} />}
            <span className="state-count">{countText(counted)}</span>
          </button>
        )
      })}
    </div>
  )
}

function NoInstances({
  machine,
  filter,
  change,
}: {
  machine: MachineName
  filter: InstanceFilter
  change: Change
}) {
  const none = Object.fromEntries(INSTANCE_FILTERS.map((name) => [name, '']))
  return INSTANCE_FILTERS.some((name) => filter[name]) ? (
    <Empty
      icon="search"
      title="Nothing matches"
      actions={
        <Button kind="primary" onClick={() => change(none)}>
          Show all
        </Button>
      }
    />
  ) : (
    <Empty icon="runs" title={`No ${TITLES[machine].toLowerCase()} yet`}>
      New instances appear here automatically.
    </Empty>
  )
}

function InstanceTable({
  machine,
  total,
  rowAt,
  onVisible,
}: {
  machine: MachineName
  total: number
  rowAt: (index: number) => Listed | undefined
  onVisible: (first: number, last: number) => void
}) {
  const table = useRef<RowFocus>(null)
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      const target = event.target as Element
      const isSearch = target.matches('[data-search]')
      if (
        !(isSearch || target === document.body || target.closest('.virtual')) ||
        !isShortcut(event, isSearch)
      )
        return
      const at = table.current?.focusedRow() ?? -1
      const next = rowAfter(event.key, at, total - 1)
      if (next === undefined || (isSearch && (event.key === 'Home' || event.key === 'End'))) return
      event.preventDefault()
      table.current?.focusRow(Math.min(Math.max(next, 0), total - 1))
    }
    addEventListener('keydown', onKey)
    return () => removeEventListener('keydown', onKey)
  }, [total])
  return (
    <VirtualTable
      ref={table}
      label={TITLES[machine]}
      columns={columnsOf(machine)}
      total={total}
      rowAt={rowAt}
      onVisible={onVisible}
    />
  )
}

const rowAfter = (key: string, at: number, last: number): number | undefined =>
  ({
    ArrowDown: at + 1,
    ArrowUp: at - 1,
    PageDown: at + ROWS_PER_PAGE_KEY,
    PageUp: at - ROWS_PER_PAGE_KEY,
    Home: 0,
    End: last,
  })[key]

const NOTES: Record<MachineName, string> = { run: 'Cause', draft: 'Published', trigger: 'Type' }

const columnsOf = (machine: MachineName): VirtualColumn<Listed>[] => [
  {
    name: 'State',
    width: '160px',
    cell: ({ state }) => <StatePill machine={machine} path={state} />,
  },
  {
    name: 'Pipeline',
    width: 'minmax(150px, 2fr)',
    cell: ({ id, state, namespace, layer, pipeline }) => (
      <Link
        // A press on the row of another instance does not open this instance.
        key={id}
        to="/inspector/$machine/$id"
        params={{ machine, id }}
        title={`${namespace}.${layer}.${pipeline} · ${id}`}
        aria-label={`${namespace}.${layer}.${pipeline}, ${state}, ${id}`}
      >
        <span className="muted">
          {namespace}.{layer}.
        </span>
        {pipeline}
      </Link>
    ),
  },
  {
    name: NOTES[machine],
    width: 'minmax(76px, 1fr)',
    cell: ({ note, attempt }) => `${note}${attempt !== null && attempt > 1 ? ` · attempt ${attempt}` : ''}`,
  },
  { name: 'Moved', width: '88px', cell: (row) => <Time at={row.moved_at ?? row.created_at} /> },
  {
    name: 'Took',
    width: '60px',
    cell: ({ duration_ms }) => (duration_ms === null ? '' : duration(duration_ms)),
  },
  { name: 'Id', width: '66px', cell: ({ id }) => <code title={id}>…{id.slice(-6)}</code> },
]
