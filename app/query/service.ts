import { ConnectError } from '@connectrpc/connect'
import type { Sql } from '../../drizzle/client.ts'
import { DEFAULT_NAMESPACE, layerOf, tableKey } from '../../ground/names.ts'
import type { JsonRows } from '../../lake/engine/arrow-json.ts'
import type { ExecuteQueryResponse } from '../../proto/gen/sluice/query/v1/query_pb.ts'
import { type Cost, CostSchema } from '../../proto/gen/sluice/runner/v1/runner_pb.ts'
import type { Tokens } from '../attempt-access/tokens.ts'
import { EVERYTHING, seesEverything, type Visible } from '../core/access.ts'
import type { Clock } from '../core/clock.ts'
import { invalid, notConfigured, unavailable } from '../core/errors.ts'
import type { NewId } from '../core/ids.ts'
import type { LakeVersion } from '../core/lake-version.ts'
import { limits } from '../core/limits.ts'
import type { Metrics } from '../core/metrics.ts'
import { type Page, rowLimitOf } from '../core/pagination.ts'
import { engineCostOf, type QueryClient } from '../rpc/clients.ts'
import type { Pool } from '../rpc/pool.ts'
import { readableView, tablesIn } from '../versions/views.ts'
import { makeAdmission } from './admission.ts'
import { makeCompare } from './compare.ts'
import { type LakeView, SERVICE, throwApiError } from './engine-errors.ts'
import { type EngineRows, makeEngineRows } from './engine-rows.ts'
import { type ExecuteQuery, QUERY_ROWS, QUERY_ROWS_MAX, QUERY_SQL_BYTES, type QueryResult } from './schema.ts'

/** Time limit of one query (specification: Limits). */
const QUERY_TIMEOUT_MS = 30_000
/** A `QueryResult` with rows as JSON. The rows never become objects between the engine and the client. */
type QueryAnswer = Omit<QueryResult, 'rows'> & JsonRows

interface QueryDeps {
  sql: Sql
  tokens: Tokens
  clock: Clock
  newId: NewId
  /** Address of this API for query services. */
  publicUrl: string
  /** Null: no query service is configured. */
  services: Pool<QueryClient> | null
  /** Maximum bytes of JSON in one answer; default `limits.answerBytes`. */
  answerBytesMax?: number
  /** Counts files and costs of queries. */
  metrics?: Pick<Metrics, 'queryFiles' | 'engineCost'>
  /** Shared by all services that return rows; the default is not shared. */
  engineRows?: EngineRows
}

export type QueryService = ReturnType<typeof makeQueryService>

export function makeQueryService({
  sql,
  tokens,
  clock,
  newId,
  publicUrl,
  services,
  answerBytesMax = limits.answerBytes,
  metrics,
  engineRows = makeEngineRows(),
}: QueryDeps) {
  const configured = () => {
    if (services === null) throw notConfigured(SERVICE)
    return services
  }

  const admitted = makeAdmission()

  /** The named version, with a token that stays valid longer than any query that starts now. */
  async function lakeAt(version: LakeVersion, visible = EVERYTHING): Promise<LakeView> {
    const { commit, branch } = await readableView(sql, version, visible)
    const expiresAt = new Date(clock.now().getTime() + QUERY_TIMEOUT_MS + limits.rpcTimeoutMs)
    return {
      commit: BigInt(commit),
      branch: branch ?? '',
      catalogUrl: `${publicUrl}/catalog`,
      objectsUrl: `${publicUrl}/lake/objects`,
      token: tokens.read({ commit, branch: branch ?? undefined, expiresAt }),
      catalogId: tokens.catalogId,
    }
  }

  /** The tables that the caller sees; undefined means every table. */
  async function scopeOf({ commit, branch }: LakeView, visible: Visible) {
    if (seesEverything(visible)) return undefined
    const view = { commit: Number(commit), branch: branch === '' ? null : branch }
    const tables = await tablesIn(sql, view, visible)
    return { tables: tables.map(({ namespace, layer, name }) => ({ namespace, layer, name })) }
  }

  return {
    /** Resolves when a query service answers. Throws 500 when none is configured, and 503 when none is reachable. */
    async requireAvailable(): Promise<void> {
      await configured()
        .check(AbortSignal.timeout(limits.readinessTimeoutMs))
        .catch((error: unknown) => {
          throw unavailable(SERVICE, error)
        })
    },

    /**
     * Runs one read-only statement; `signal` stops it. Tables that the caller does not see do not exist for the statement.
     * `sharer` is the user whose share of the parallel queries counts.
     */
    async run(
      { sql: text, namespace, limit, ...version }: ExecuteQuery,
      signal: AbortSignal,
      visible = EVERYTHING,
      sharer: string | null = null,
    ): Promise<QueryAnswer> {
      const pool = configured()
      if (new TextEncoder().encode(text).length > QUERY_SQL_BYTES)
        throw invalid('sql', `must be at most ${QUERY_SQL_BYTES} bytes`)
      // The query service enforces the time limit. This timeout covers a service that no longer answers.
      const lost = AbortSignal.timeout(QUERY_TIMEOUT_MS + limits.rpcTimeoutMs)
      return admitted(async () => {
        const lake = await lakeAt(version, visible)
        const request = {
          queryId: newId(),
          sql: text,
          namespace: namespace || DEFAULT_NAMESPACE,
          limit: BigInt(rowLimitOf(limit, { fallback: QUERY_ROWS, max: QUERY_ROWS_MAX })),
          timeoutMs: QUERY_TIMEOUT_MS,
          answerBytes: BigInt(answerBytesMax),
          lake,
          scope: await scopeOf(lake, visible),
        }
        const options = { signal: AbortSignal.any([signal, lost]) }
        const { arrowIpc, rowCount, truncated, durationMs, filesTotal, filesRead } = await pool
          .call((service) => counted(service.executeQuery(request, options), metrics))
          .catch(throwApiError)
        metrics?.queryFiles.inc({ use: 'read' }, Number(filesRead))
        metrics?.queryFiles.inc({ use: 'skipped' }, Number(filesTotal - filesRead))
        const total = Number(rowCount)
        const rows = await engineRows(arrowIpc, {
          shape: 'objects',
          rows: total,
          bytesMax: answerBytesMax,
          signal,
        })
        return {
          ...rows,
          total_rows: total,
          truncated,
          duration_ms: Number(durationMs),
        }
      }, sharer)
    },

    compare: makeCompare({ configured, lakeAt, admitted, newId, answerBytesMax, engineRows }),

    /** The columns of every visible table of a version, ordered by name. */
    async schema(version: LakeVersion, page: Page, visible = EVERYTHING) {
      const pool = configured()
      const lake = await lakeAt(version, visible)
      const scope = await scopeOf(lake, visible)
      const options = { signal: AbortSignal.timeout(limits.rpcTimeoutMs) }
      const { tables } = await pool
        .call((service) => service.getSchema({ lake, scope }, options))
        .catch(throwApiError)
      const listed = tables.flatMap(({ table, columns }) => {
        const layer = layerOf(table?.layer)
        if (table === undefined || layer === undefined) return []
        return [{ namespace: table.namespace, layer, name: table.name, columns }]
      })
      const ordered = listed.sort((a, b) => (tableKey(a) < tableKey(b) ? -1 : 1))
      return {
        tables: ordered
          .slice(page.offset, page.offset + page.limit)
          .map((table) => ({ ...table, columns: table.columns.map(({ name, type }) => ({ name, type })) })),
        total: ordered.length,
      }
    },
  }
}

/** Counts the cost of a query, also if it fails. */
async function counted(
  answer: Promise<ExecuteQueryResponse>,
  metrics: QueryDeps['metrics'],
): Promise<ExecuteQueryResponse> {
  const count = (cost: Cost | undefined) => {
    if (cost !== undefined) metrics?.engineCost('query', engineCostOf(cost))
  }
  try {
    const found = await answer
    count(found.cost)
    return found
  } catch (error) {
    count(ConnectError.from(error).findDetails(CostSchema)[0])
    throw error
  }
}
