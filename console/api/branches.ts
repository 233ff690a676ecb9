import { keepPreviousData, queryOptions } from '@tanstack/react-query'
import { api, given, ok } from './client.ts'
import { ROWS_COMPARED, readDiff, rowsQuery, type TableChange } from './diff.ts'
import { RUN_LISTS, useLiveRuns } from './live-runs.ts'
import { boundsOf } from './paging.ts'
import { type DataOf, LIVE_MS, queryClient, refresh, SLOW_MS } from './queries.ts'

const KEY = ['branches']
const changed = () => refresh(KEY)
const oneKey = (name: string) => [...KEY, 'one', name]
const branchAt = (branch: string) => api.branches({ branch })

/** Commits that a page lists. */
const COMMITS_LISTED = '50'

export const BRANCH_STATUSES = ['open', 'merged', 'deleted'] as const
/** The status that the filter of an address means. Undefined: no such status. */
export const branchStatusIn = (text = 'open') => BRANCH_STATUSES.find((each) => each === text)

export const branchListQuery = (filters: { search?: string; status?: string; offset?: string }) => {
  const { search } = filters
  const status = branchStatusIn(filters.status)
  const query = { ...given({ status, search }), ...boundsOf(filters.offset) }
  return queryOptions({
    queryKey: [...KEY, 'list', query],
    queryFn: () => ok(api.branches.get({ query })),
    refetchInterval: SLOW_MS,
    placeholderData: keepPreviousData,
  })
}
export type ListedBranch = DataOf<typeof branchListQuery>['branches'][number]

export const openBranchesQuery = () =>
  queryOptions({
    queryKey: [...KEY, 'names'],
    queryFn: () => ok(api.branches.get({ query: { status: 'open' } })),
  })

export const branchQuery = (name: string) =>
  queryOptions({
    queryKey: oneKey(name),
    queryFn: () => ok(branchAt(name).get()),
    // The commits of a run appear with its end.
    refetchInterval: LIVE_MS,
  })
export type Branch = DataOf<typeof branchQuery>

/** Reads the branch and all lists of runs again when a run moves. */
export const useLiveBranch = (name: string) => useLiveRuns([oneKey(name), RUN_LISTS])

/** Changes with each commit on the branch and on main. */
const stateOf = ({ name, head, base_commit: base, commits_behind: behind }: Branch) =>
  [name, head ?? '', String(base), String(behind)] as const

export const branchDiffQuery = (branch: Branch) =>
  queryOptions({
    queryKey: [...KEY, 'diff', ...stateOf(branch)],
    queryFn: () => readDiff(branch.name),
    placeholderData: keepPreviousData,
  })

export const branchRowsQuery = (branch: Branch, table: TableChange) =>
  rowsQuery([...KEY, 'rows', ...stateOf(branch)], table, () => {
    const { namespace: ns, layer, name } = table
    return ok(
      branchAt(branch.name)
        .diff({ ns })({ layer })({ name })
        .get({ query: { limit: ROWS_COMPARED } }),
    )
  })

export const branchCommitsQuery = (branch: Branch) =>
  queryOptions({
    queryKey: [...KEY, 'commits', ...stateOf(branch)],
    queryFn: () => ok(branchAt(branch.name).commits.get({ query: { limit: COMMITS_LISTED } })),
    placeholderData: keepPreviousData,
  })

export const createBranch = (body: { name: string; as_of?: number; description?: string }) =>
  ok(api.branches.post(body)).then(changed)

/** The branch first: a closed branch has no difference and no commits to load again. */
async function branchChanged(name: string) {
  await queryClient.invalidateQueries({ queryKey: oneKey(name), exact: true })
  await queryClient.invalidateQueries({
    queryKey: KEY,
    predicate: ({ queryKey: [, kind, of] }) => kind === 'list' || of !== name,
  })
}

const requestMerge = (name: string, message: string, publishesDrafts: boolean) =>
  branchAt(name).merge.post(
    { ...(message !== '' && { message }), publish_drafts: publishesDrafts },
    { headers: {} },
  )
type MergeError = Awaited<ReturnType<typeof requestMerge>>['error'] & {}
/** The tests and conflicts that stand against a merge or a rebase. */
export type Refusal = Extract<MergeError, { status: 409 }>['value']
type OnRefusal = (refusal: Refusal | null) => void

/** Merges a branch into main. Calls `onRefusal` with null unless the service refuses. */
export async function mergeBranch(
  name: string,
  { message, publishesDrafts }: { message: string; publishesDrafts: boolean },
  onRefusal: OnRefusal,
) {
  const answer = await requestMerge(name, message, publishesDrafts)
  onRefusal(answer.error?.status === 409 ? answer.error.value : null)
  const merged = await ok(Promise.resolve(answer))
  await branchChanged(name)
  return merged
}

export async function rebaseBranch(name: string, onRefusal: OnRefusal) {
  const answer = await branchAt(name).rebase.post()
  onRefusal(answer.error?.status === 409 ? answer.error.value : null)
  const rebased = await ok(Promise.resolve(answer))
  await branchChanged(name)
  return rebased
}

/** `leave` leaves the page of the branch, which would otherwise be read once more. */
export async function deleteBranch(name: string, leave: () => Promise<unknown>) {
  await ok(branchAt(name).delete())
  await leave()
  await branchChanged(name)
}
