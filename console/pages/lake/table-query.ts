import { api, ok } from '../../api/client.ts'
import type { Filters } from '../../shell/filters.ts'
import type { TableAt } from './snippets.ts'

/** The version of the lake that a page shows: a branch, or main as of a point. */
export type Version = { branch?: string; as_of?: string }

export const versionIn = ({ branch, as_of: asOf }: Filters): Version => ({
  ...(branch && { branch }),
  ...(asOf && { as_of: asOf }),
})

export const tableAt = ({ ns, layer, name }: TableAt) => api.tables({ ns })({ layer })({ name })
export const tableQuery = (at: TableAt, version: Version) => () => ok(tableAt(at).get({ query: version }))
export type Table = Awaited<ReturnType<ReturnType<typeof tableQuery>>>

export const statisticsQuery = (at: TableAt, version: Version) => () =>
  ok(tableAt(at).statistics.get({ query: version }))
export type Statistics = Awaited<ReturnType<ReturnType<typeof statisticsQuery>>>
