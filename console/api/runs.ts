import { queryOptions } from '@tanstack/react-query'
import { LAYERS, type Layer } from '../../ground/names.ts'
import { api, given, ok } from './client.ts'
import { ROWS_COMPARED, rowsQuery, type TableChange } from './diff.ts'
import { drawingPath } from './inspector.ts'
import { RUN_LISTS } from './live-runs.ts'
import type { Named } from './pipelines.ts'
import { type DataOf, LIVE_MS, refresh } from './queries.ts'
import { path, readBlob } from './request.ts'

const KEY = ['runs']
const changed = () => refresh(KEY)

/** Rows of one page of the list. */
export const RUN_PAGE_ROWS = 100
/** Runs that the page of a branch shows. The list of runs shows all. */
const BRANCH_RUNS = '20'
const PIPELINE_RUNS = '30'
const HOURS = 24
const HOUR_MS = 3_600_000
/** Runs of the last day that a page reads. */
const DAY_RUNS = '200'

export const RUN_STATUSES = ['pending', 'running', 'success', 'failed', 'cancelled'] as const
const SORTS = ['created_at', 'started_at', 'finished_at', 'duration_ms', 'status', 'trigger'] as const
export const RUN_FILTERS = [
  'namespace',
  'layer',
  'pipeline',
  'branch',
  'status',
  'from',
  'to',
  'sort',
  'order',
] as const

const oneOf = <Value extends string>(values: readonly Value[], text: string | undefined) =>
  values.find((each) => each === text)

/** The filters of an address as the API has them. Unknown values are no filter. */
export function runFilterOf(filters: Partial<Record<(typeof RUN_FILTERS)[number], string>>) {
  const { namespace, pipeline, branch, from, to } = filters
  return given({
    namespace,
    layer: oneOf(LAYERS, filters.layer),
    pipeline,
    branch,
    status: oneOf(RUN_STATUSES, filters.status),
    from,
    to,
    sort: oneOf(SORTS, filters.sort),
    order: oneOf(['asc', 'desc'] as const, filters.order),
  })
}
export type RunFilter = ReturnType<typeof runFilterOf>

export const runListQuery = (filter: RunFilter, page: number) => {
  const bounds = { limit: String(RUN_PAGE_ROWS), offset: String(page * RUN_PAGE_ROWS) }
  return queryOptions({
    queryKey: [...RUN_LISTS, filter, page],
    queryFn: () => ok(api.runs.get({ query: { ...filter, ...bounds } })),
    refetchInterval: LIVE_MS,
  })
}
export type ListedRun = DataOf<typeof runListQuery>['runs'][number]

export const branchRunsQuery = (branch: string) =>
  queryOptions({
    queryKey: [...RUN_LISTS, { branch }, 'newest'],
    queryFn: () => ok(api.runs.get({ query: { branch, limit: BRANCH_RUNS } })),
    refetchInterval: LIVE_MS,
  })

export const pipelineRunsQuery = ({ ns: namespace, layer, name: pipeline }: Named) =>
  queryOptions({
    queryKey: [...KEY, 'of', namespace, layer, pipeline],
    queryFn: () =>
      ok(api.runs.get({ query: { namespace, layer: layer as Layer, pipeline, limit: PIPELINE_RUNS } })),
    refetchInterval: LIVE_MS,
  })

/** The newest runs on main of 24 hours, the present one included; the numbers of all of them and of the failed ones. */
export const dayRunsQuery = (now: () => Date) =>
  queryOptions({
    queryKey: [...KEY, 'day'],
    queryFn: async () => {
      // The first hour is whole, so the address stays the same for a while.
      const from = new Date((Math.floor(now().getTime() / HOUR_MS) - HOURS + 1) * HOUR_MS).toISOString()
      const query = { from, branch: 'main' }
      const [all, failed] = await Promise.all([
        ok(api.runs.get({ query: { ...query, limit: DAY_RUNS } })),
        ok(api.runs.get({ query: { ...query, status: 'failed', limit: '1' } })),
      ])
      return { runs: all.runs, total: all.total, failed: failed.total }
    },
    refetchInterval: LIVE_MS,
  })

export const isOver = ({ status }: { status: string }) => status !== 'pending' && status !== 'running'

export const readRun = (id: string) => ok(api.runs({ id }).get())
export type Run = Awaited<ReturnType<typeof readRun>>

export const runQuery = (id: string) =>
  queryOptions({
    queryKey: [...KEY, id],
    queryFn: () => readRun(id),
    refetchInterval: ({ state }) => (state.data !== undefined && isOver(state.data) ? false : LIVE_MS / 3),
  })

/** The results of the quality tests. They change with the state of the run. */
export const runTestsQuery = (id: string, ...state: readonly (string | number | null)[]) =>
  queryOptions({
    queryKey: [...KEY, id, 'tests', ...state],
    queryFn: () => ok(api.runs({ id }).tests.get()),
  })

/** The change of a run, which it has in review and after its end. */
export const runDiffQuery = ({ id, status, phase }: Run) =>
  queryOptions({
    queryKey: [...KEY, id, 'diff', status, phase],
    queryFn: () => ok(api.runs({ id }).diff.get()),
    enabled: phase === 'review' || status === 'success' || status === 'failed',
    retry: false,
  })

export const runRowsQuery = ({ id, attempt }: Run, table: TableChange) =>
  rowsQuery([...KEY, id, String(attempt)], table, () =>
    ok(api.runs({ id }).diff.rows.get({ query: { limit: ROWS_COMPARED } })),
  )

export const runInputsQuery = ({ id, status, attempt }: Run) =>
  queryOptions({
    queryKey: [...KEY, id, 'inputs', status, attempt],
    queryFn: () => ok(api.runs({ id }).inputs.get()),
  })
export type RunInputs = DataOf<typeof runInputsQuery>

/** The states that a run went through. */
export const runStepsQuery = (id: string, isRunOver: boolean) =>
  queryOptions({
    queryKey: [...KEY, id, 'steps', isRunOver],
    queryFn: () => ok(api.inspector({ machine: 'run' }).instances({ id }).get({ query: {} })),
    refetchInterval: isRunOver ? false : LIVE_MS / 2,
  })

/** The drawing of the statechart. */
export const readStatechart = (active: string, signal: AbortSignal): Promise<Blob> =>
  readBlob(drawingPath('run', { detail: 'states', active }), signal)

/** The address of the event stream of a log. */
export const logPathOf = (id: string) => path`runs/${id}/logs`

interface RunOptions {
  branch?: string
  draft?: boolean
}

/** The request of a run by hand. */
export const runRequestOf = ({ ns: namespace, layer, name: pipeline }: Named, more: RunOptions) => ({
  namespace,
  layer: layer as Layer,
  pipeline,
  trigger: 'manual',
  ...more,
})

/** Requests a run by hand and returns its id. */
export const requestRun = async (at: Named, more: RunOptions = {}): Promise<string> =>
  (await ok(api.runs.post(runRequestOf(at, more), { headers: {} }))).run_id

export const approveRun = (id: string, message: string) =>
  ok(api.runs({ id }).approve.post(message === '' ? {} : { message })).then(changed)

export const rejectRun = (id: string, message: string) =>
  ok(api.runs({ id }).reject.post({ message })).then(changed)

export const cancelRun = (id: string) => ok(api.runs({ id }).cancel.post()).then(changed)
