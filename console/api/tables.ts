import { keepPreviousData, queryOptions } from '@tanstack/react-query'
import { layerOf } from '../../ground/names.ts'
import { api, given, ok } from './client.ts'
import { boundsOf } from './paging.ts'
import { type DataOf, queryClient, refresh, SLOW_MS } from './queries.ts'

const KEY = ['tables']
const changed = () => refresh(KEY)

const PREVIEW_ROWS = '200'
const STATES_LISTED = '50'
/** Files of one page of the list. */
export const FILE_ROWS = 20
/** Tables change when a pipeline runs for the first time, so completions need not read them often. */
const SCHEMA_MS = 60_000

export const TABLE_FILTERS = ['search', 'namespace', 'layer', 'branch', 'as_of', 'offset'] as const

export interface TableAt {
  ns: string
  layer: string
  name: string
}

/** The version of the lake that a page shows: a branch, or main as of a point. */
export interface Version {
  branch?: string
  as_of?: string
}

/** The version in the filters of an address. */
export const versionIn = ({ branch, as_of }: Version): Version => given({ branch, as_of })

const tableAt = ({ ns, layer, name }: TableAt) => api.tables({ ns })({ layer })({ name })
const keyOf = ({ ns, layer, name }: TableAt) => [...KEY, ns, layer, name]

/** The tables and views that the filters of an address select. */
export const tableListQuery = (filters: Partial<Record<(typeof TABLE_FILTERS)[number], string>>) => {
  const { search, namespace } = filters
  const layer = layerOf(filters.layer)
  const query = { ...given({ search, namespace, layer }), ...versionIn(filters), ...boundsOf(filters.offset) }
  return queryOptions({
    queryKey: [...KEY, 'list', query],
    queryFn: () => ok(api.tables.get({ query })),
    refetchInterval: SLOW_MS,
    placeholderData: keepPreviousData,
  })
}
export type ListedTable = DataOf<typeof tableListQuery>['tables'][number]

/** The first page of all tables, as suggestions. */
export const tableNamesQuery = () =>
  queryOptions({ queryKey: [...KEY, 'names'], queryFn: () => ok(api.tables.get({ query: {} })) })

/** All tables of main or of a branch with their columns, for completions. */
export const schemaQuery = (branch: string) =>
  queryOptions({
    queryKey: [...KEY, 'schema', branch],
    queryFn: () => ok(api.schema.get({ query: branch ? { branch } : {} })),
    staleTime: SCHEMA_MS,
    // A comparison of thousands of tables takes longer than all that uses them.
    structuralSharing: false,
  })

export const tableQuery = (at: TableAt, version: Version) =>
  queryOptions({
    queryKey: [...keyOf(at), version],
    queryFn: () => ok(tableAt(at).get({ query: version })),
  })
export type Table = DataOf<typeof tableQuery>

export const statisticsQuery = (at: TableAt, version: Version) =>
  queryOptions({
    queryKey: [...keyOf(at), 'statistics', version],
    queryFn: () => ok(tableAt(at).statistics.get({ query: version })),
  })
export type Statistics = DataOf<typeof statisticsQuery>

export const tablePreviewQuery = (at: TableAt, version: Version) =>
  queryOptions({
    queryKey: [...keyOf(at), 'preview', version],
    queryFn: () => ok(tableAt(at).preview.get({ query: { ...version, limit: PREVIEW_ROWS } })),
  })

export const dataFilesQuery = (at: TableAt, version: Version, offset: string | undefined) => {
  const query = { ...version, ...boundsOf(offset, FILE_ROWS) }
  return queryOptions({
    queryKey: [...keyOf(at), 'files', query],
    queryFn: () => ok(tableAt(at).files.get({ query })),
    placeholderData: keepPreviousData,
  })
}
export type DataFile = DataOf<typeof dataFilesQuery>['files'][number]

export const tableHistoryQuery = (at: TableAt, branch = '') =>
  queryOptions({
    queryKey: [...keyOf(at), 'history', branch],
    queryFn: () =>
      ok(tableAt(at).history.get({ query: { limit: STATES_LISTED, ...(branch && { branch }) } })),
    refetchInterval: SLOW_MS,
  })

/** Reads a table again that has a new state, except for its history, which showed the state. */
export const tableChanged = (at: TableAt) =>
  queryClient.invalidateQueries({
    queryKey: keyOf(at),
    predicate: ({ queryKey }) => queryKey[KEY.length + 3] !== 'history',
  })

type Description = Parameters<ReturnType<typeof tableAt>['metadata']['put']>[0]

export const describeTable = (at: TableAt, description: Description) =>
  ok(tableAt(at).metadata.put(description)).then(changed)

export const restoreTable = (at: TableAt, commit: number) =>
  ok(tableAt(at).restore.post({ commit })).then(changed)
