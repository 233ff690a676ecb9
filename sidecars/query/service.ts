import { Code, ConnectError, type ServiceImpl } from '@connectrpc/connect'
import { UnsupportedTable } from '../../lake/iceberg/format/metadata.ts'
import { BUSY_HEADER } from '../../proto/busy-header.ts'
import type {
  ExecuteQueryRequest,
  LakeView,
  QueryService,
  TableScope,
} from '../../proto/gen/sluice/query/v1/query_pb.ts'
import { CostSchema } from '../../proto/gen/sluice/runner/v1/runner_pb.ts'
import { type Log, messageOf } from '../core/log.ts'
import { type Cost, costOfAll, costOnWire, NO_COST } from '../core/process-usage.ts'
import { EngineEnded, OUT_OF_MEMORY, onceMoreIfKilled } from '../engine/engine-process.ts'
import { MissingLakeFile } from '../objects/missing-file.ts'
import type { ApiAddresses } from '../rpc/api-addresses.ts'
import { HttpFailure } from '../rpc/http.ts'
import type { CommitTable, TablesAt } from './commits.ts'
import type { CompareStates } from './comparisons.ts'
import { EngineFault } from './engine-messages.ts'
import { limits } from './limits.ts'
import { DEFAULT_NAMESPACE } from './names.ts'
import { NoSuchTable, type RunQuery } from './queries.ts'
import { BrokenView } from './stored-views.ts'
import { NoSlot } from './turns.ts'

// The RPC interface of the query service: parses requests, enforces the time limit, and maps errors.

interface ServiceDeps {
  runQuery: RunQuery
  compareStates: CompareStates
  tablesAt: TablesAt
  /** The API addresses that requests may use. */
  apis: ApiAddresses
  /** The memory limit of one query, for the message about a query that exceeded it. */
  memoryLimitBytes: number
  log: Log
}

/** The reasons for which a query is stopped. */
class TimeLimit extends Error {}
class Cancelled extends Error {}

export function makeQueryService(deps: ServiceDeps): Partial<ServiceImpl<typeof QueryService>> {
  const { runQuery, compareStates, tablesAt, apis } = deps
  /** Running queries by the name that their caller chose. */
  const running = new Map<string, AbortController>()

  /** Runs work under a name until its time limit. */
  async function limitedInTime<Answer>(
    { queryId, timeoutMs, caller }: { queryId: string; timeoutMs: number; caller: AbortSignal },
    work: (signal: AbortSignal) => Promise<Answer>,
  ): Promise<Answer> {
    if (timeoutMs < 1 || timeoutMs > limits.queryMs)
      throw badRequest(`timeout_ms: must be from 1 to ${limits.queryMs}`)
    if (running.has(queryId)) throw new ConnectError(`query_id: ${queryId} is in use`, Code.AlreadyExists)
    const stop = new AbortController()
    const deadline = setTimeout(() => stop.abort(new TimeLimit()), timeoutMs)
    const signal = AbortSignal.any([stop.signal, caller])
    if (queryId !== '') running.set(queryId, stop)
    try {
      return await onceMoreIfKilled(() => work(signal), signal)
    } catch (error) {
      if (error === caller.reason) throw ConnectError.from(error, Code.Canceled)
      throw toConnectError(error, { ...deps, timeoutMs })
    } finally {
      clearTimeout(deadline)
      running.delete(queryId)
    }
  }

  return {
    async executeQuery(request, context) {
      const { queryId, sql, namespace, limit, timeoutMs, scope, answerBytes, ...given } = parsed(request)
      let cost: Cost = NO_COST
      const query = {
        sql,
        namespace,
        rowsLimit: limit,
        jsonBytesMax: jsonBytesOf(answerBytes),
        lake: apis.checked(given.lake),
        visibleTables: visibleTablesOf(scope),
        noteCost(more: Cost) {
          cost = costOfAll([cost, more])
        },
      }
      const started = performance.now()
      const { arrow, rows, truncated, files } = await limitedInTime(
        { queryId, timeoutMs, caller: context.signal },
        (signal) => runQuery(query, signal),
      ).catch((error: unknown) => {
        // The caller also counts the cost of a query that fails.
        if (error instanceof ConnectError) error.details.push({ desc: CostSchema, value: costOnWire(cost) })
        throw error
      })
      return {
        arrowIpc: arrow,
        rowCount: BigInt(rows),
        truncated,
        filesTotal: BigInt(files.total),
        filesRead: BigInt(files.read),
        durationMs: BigInt(Math.round(performance.now() - started)),
        cost: costOnWire(cost),
      }
    },

    async compareStates({ queryId, timeoutMs, before, after, key, limit, answerBytes, ...given }, context) {
      const rowsLimit = Number(limit)
      if (rowsLimit < 0 || rowsLimit > limits.rows)
        throw badRequest(`limit: must be from 0 to ${limits.rows}`)
      const comparison = {
        lake: apis.checked(required(given.lake)),
        before: before || null,
        after: after || null,
        key,
        rowsLimit,
        jsonBytesMax: jsonBytesOf(answerBytes),
      }
      const { counts, added, removed, changed } = await limitedInTime(
        { queryId, timeoutMs, caller: context.signal },
        (signal) => compareStates(comparison, signal),
      )
      const countOf = (list: typeof added) => BigInt(list?.rows ?? 0)
      return {
        counts: counts?.arrow,
        added: added?.arrow,
        removed: removed?.arrow,
        changed: changed?.arrow,
        addedCount: countOf(added),
        removedCount: countOf(removed),
        changedCount: countOf(changed),
        truncated: [added, removed, changed].some((list) => list?.truncated),
      }
    },

    cancelQuery({ queryId }) {
      running.get(queryId)?.abort(new Cancelled())
      return {}
    },

    async getSchema({ lake, tables: wanted, scope }, context) {
      const view = apis.checked(required(lake))
      const visible = visibleTablesOf(scope)
      try {
        const tables = await tablesAt(view, context.signal)
        const found =
          wanted.length === 0 ? [...tables.values()] : wanted.flatMap((name) => tables.get(keyOf(name)) ?? [])
        return {
          tables: found.filter((table) => visible === null || visible.has(keyOf(table))).map(toSchema),
        }
      } catch (error) {
        throw toConnectError(error, { ...deps, timeoutMs: limits.queryMs })
      }
    },

    previewPipeline() {
      throw new ConnectError('the query service has no previews: call the runner', Code.Unimplemented)
    },
  }
}

function parsed(request: ExecuteQueryRequest) {
  const limit = Number(request.limit)
  if (limit < 0 || limit > limits.rows) throw badRequest(`limit: must be from 0 to ${limits.rows}`)
  return {
    ...request,
    namespace: request.namespace || DEFAULT_NAMESPACE,
    limit,
    lake: required(request.lake),
  }
}

function required(lake: LakeView | undefined): LakeView {
  if (lake === undefined) throw badRequest('lake: is required')
  return lake
}

/** The maximum size of an answer as JSON; 0 on the wire means no limit. */
const jsonBytesOf = (answerBytes: bigint): number =>
  answerBytes > 0n ? Number(answerBytes) : Number.MAX_SAFE_INTEGER

const badRequest = (message: string) => new ConnectError(message, Code.InvalidArgument)
const keyOf = (name: { namespace: string; layer: string; name: string }) =>
  `${name.namespace}.${name.layer}.${name.name}`

/** Keys of the tables that a caller may see. Null means all tables. */
const visibleTablesOf = (scope: TableScope | undefined): ReadonlySet<string> | null =>
  scope === undefined ? null : new Set(scope.tables.map(keyOf))

const toSchema = (table: CommitTable) => ({
  table: { namespace: table.namespace, layer: table.layer, name: table.name },
  columns: table.columns,
  rowCount: BigInt(table.row_count),
  sizeBytes: BigInt(table.size_bytes),
})

/** Maps an error to the protocol: InvalidArgument for faults of the query, ResourceExhausted for its size. */
function toConnectError(
  error: unknown,
  { timeoutMs, memoryLimitBytes, log }: ServiceDeps & { timeoutMs: number },
): ConnectError {
  const as = (code: Code, message: string) => new ConnectError(message, code, undefined, undefined, error)
  const megabytes = Math.floor(memoryLimitBytes / 1_048_576)
  const outOfMemory = `the query exceeded its memory limit of ${megabytes} MB (QUERY_MEMORY_LIMIT)`
  if (error instanceof TimeLimit)
    return as(Code.DeadlineExceeded, `the query was stopped at its time limit of ${timeoutMs / 1_000} s`)
  if (error instanceof Cancelled) return as(Code.Canceled, 'the query was cancelled')
  if (error instanceof NoSuchTable || error instanceof BrokenView)
    return as(Code.InvalidArgument, error.message)
  if (error instanceof UnsupportedTable) return as(Code.FailedPrecondition, error.message)
  if (error instanceof MissingLakeFile) {
    log.error('query failed: a file of the lake is missing', { file: error.key })
    return as(Code.FailedPrecondition, error.message)
  }
  if (error instanceof NoSlot)
    return new ConnectError(error.message, Code.Unavailable, { [BUSY_HEADER]: '1' }, undefined, error)
  if (error instanceof EngineFault)
    switch (error.kind) {
      case 'refused':
      case 'syntax':
      case 'binder':
      case 'view':
      case 'other':
      case 'too_large':
      case 'interrupted':
        return as(Code.InvalidArgument, error.message)
      case 'out_of_memory':
        return as(Code.ResourceExhausted, outOfMemory)
      case 'broken':
        log.error('query engine failed', { error: error.message })
        return as(Code.Aborted, 'the query engine failed with an internal error')
      case 'unprepared':
      case 'unreadable':
        log.error('query failed: a file of a table is missing or damaged', { error: error.message })
        return as(Code.Internal, `a table could not be read: ${error.message}`)
    }
  if (error instanceof EngineEnded) {
    if (error.why === OUT_OF_MEMORY) return as(Code.ResourceExhausted, outOfMemory)
    log.error('engine process ended during a query', { how: error.why })
    if (error.end === 'killed')
      return new ConnectError(
        `the engine was killed from outside twice while it ran this query (${error.why}): try again`,
        Code.Unavailable,
        { [BUSY_HEADER]: '1' },
        undefined,
        error,
      )
    return as(Code.Aborted, `the engine ended while it ran this query (${error.why})`)
  }
  if (error instanceof ConnectError) return error
  log.error('query failed', { error: messageOf(error) })
  return isOutOfReach(error)
    ? as(Code.Unavailable, `the lake cannot be reached: ${messageOf(error)}`)
    : as(Code.Internal, messageOf(error))
}

/** Whether the lake is unreachable: no answer, or status 5xx. A missing file counts as a lasting error instead. */
function isOutOfReach(error: unknown): boolean {
  if (error instanceof HttpFailure) return error.status >= 500
  if (!(error instanceof Error)) return false
  return error.name === 'TimeoutError' || ('code' in error && error.code !== 'ENOENT')
}
