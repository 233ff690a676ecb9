import { keepPreviousData, queryOptions } from '@tanstack/react-query'
import { api, ok } from './client.ts'

/** Rows of a table that a page compares. */
export const ROWS_COMPARED = '200'

export const readDiff = (branch: string) => ok(api.branches({ branch }).diff.get({ query: {} }))
/** The change of one table on a branch or by a run. */
export type TableChange = Awaited<ReturnType<typeof readDiff>>['tables'][number]

type Row = Record<string, unknown>
/** The schema of the API says only that rows are objects. */
export interface RowDiff {
  columns: { name: string; type: string }[]
  added: Row[]
  removed: Row[]
  changed: { before: Row; after: Row }[]
  truncated: boolean
}

/** The rows of a table that a branch or a run adds, removes and changes. `key` names the state of both. */
export const rowsQuery = (
  key: readonly string[],
  { namespace, layer, name }: TableChange,
  read: () => Promise<unknown>,
) =>
  queryOptions({
    queryKey: [...key, 'rows', namespace, layer, name],
    queryFn: async () => (await read()) as RowDiff,
    retry: false,
    placeholderData: keepPreviousData,
  })
