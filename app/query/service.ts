import { Code, ConnectError } from '@connectrpc/connect'
import type { Sql } from '../../drizzle/client.ts'
import type { JsonRows } from '../../lake/engine/arrow-json.ts'
import { LAYERS, tableKey } from '../../lake/pipeline/names.ts'
import { tablesSeenAt } from '../access/service.ts'
import { headOfMain } from '../catalog/branches.ts'
import type { Tokens } from '../catalog/tokens.ts'
import { EVERYTHING, seesEverything, type Visible } from '../core/access.ts'
import type { Clock } from '../core/clock.ts'
import { AppError, invalid, notConfigured, unavailable } from '../core/errors.ts'
import type { NewId } from '../core/ids.ts'
import { limits } from '../core/limits.ts'
import { DEFAULT_NAMESPACE } from '../core/names.ts'
import { limitOf, type Page } from '../core/pagination.ts'
import type { QueryClient } from '../rpc/clients.ts'
import type { Pool } from '../rpc/pool.ts'
import { type EngineRows, makeEngineRows } from './engine-rows.ts'
import type { ExecuteQuery, QueryResult } from './schema.ts'
import { QUERY_ROWS, QUERY_ROWS_MAX, QUERY_SQL_BYTES } from './schema.ts'

/** Time of one query (specification: Limits). */
const QUERY_TIMEOUT_MS = 30_000
/** Queries one API process has under way: its HTTP client makes 256 calls at once, and runners are called by it too. */
const QUERIES_UNDER_WAY = 192

/** A `QueryResult` whose rows are JSON already: they never become objects on their way from the engine to the client. */
export type QueryAnswer = Omit<QueryResult, 'rows'> & JsonRows

/** Main at one commit, for a query service. */
interface MainView {
  commit: bigint
  catalogUrl: string
  objectsUrl: string
  token: string
  /** See Tokens.catalogId. */
  catalogId: string
}

export interface QueryDeps {
  sql: Sql
  tokens: Tokens
  clock: Clock
  newId: NewId
  /** Where query services reach this API. */
  publicUrl: string
  /** Null: no query service is configured. */
  services: Pool<QueryClient> | null
  /** Bytes of JSON of one answer; default `limits.answerBytes`. */
  answerBytesMax?: number
  /** Shared by all that answer rows; default: its own. */
  engineRows?: EngineRows
}

export type QueryService = ReturnType<typeof makeQueryService>

const SERVICE = 'query service'

export function makeQueryService({
  sql,
  tokens,
  clock,
  newId,
  publicUrl,
  services,
  answerBytesMax = limits.answerBytes,
  engineRows = makeEngineRows(),
}: QueryDeps) {
  const configured = () => {
    if (services === null) throw notConfigured(SERVICE)
    return services
  }

  let underWay = 0

  /** Main at its head. The token outlasts every query that begins now. */
  async function mainNow(): Promise<MainView> {
    const commit = await headOfMain(sql)
    const expiresAt = new Date(clock.now().getTime() + QUERY_TIMEOUT_MS + limits.rpcTimeoutMs)
    return {
      commit: BigInt(commit),
      catalogUrl: `${publicUrl}/catalog`,
      objectsUrl: `${publicUrl}/lake/objects`,
      token: tokens.read({ commit, expiresAt }),
      catalogId: tokens.catalogId,
    }
  }

  /** Undefined: every table. */
  async function scopeOf({ commit }: MainView, visible: Visible) {
    if (seesEverything(visible)) return undefined
    return { tables: await tablesSeenAt(sql, Number(commit), visible) }
  }

  return {
    /** Resolves when a query service answers: 500 when there is none, 503 when none can be reached. */
    async requireAvailable(): Promise<void> {
      await configured()
        .check(AbortSignal.timeout(limits.readinessTimeoutMs))
        .catch((error: unknown) => {
          throw unavailable(SERVICE, error)
        })
    },

    /** Runs one read-only statement, to which no table exists that the caller does not see; `signal` stops it. */
    async run(
      { sql: text, namespace, limit }: ExecuteQuery,
      signal: AbortSignal,
      visible = EVERYTHING,
    ): Promise<QueryAnswer> {
      const pool = configured()
      if (new TextEncoder().encode(text).length > QUERY_SQL_BYTES)
        throw invalid('sql', `must be at most ${QUERY_SQL_BYTES} bytes`)
      if (underWay >= QUERIES_UNDER_WAY) throw busy(`${underWay} queries are under way`)
      // The service keeps the time limit; this one is for a service that has stopped answering.
      const lost = AbortSignal.timeout(QUERY_TIMEOUT_MS + limits.rpcTimeoutMs)
      underWay += 1
      try {
        const lake = await mainNow()
        const request = {
          queryId: newId(),
          sql: text,
          namespace: namespace || DEFAULT_NAMESPACE,
          limit: BigInt(limitOf(limit, { fallback: QUERY_ROWS, max: QUERY_ROWS_MAX })),
          timeoutMs: QUERY_TIMEOUT_MS,
          answerBytes: BigInt(answerBytesMax),
          lake,
          scope: await scopeOf(lake, visible),
        }
        const options = { signal: AbortSignal.any([signal, lost]) }
        const { arrowIpc, rowCount, truncated, durationMs } = await pool
          .call((service) => service.executeQuery(request, options))
          .catch(refuse)
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
      } finally {
        underWay -= 1
      }
    },

    /** The columns of every table of main that the caller sees, in order of name. */
    async schema(page: Page, visible = EVERYTHING) {
      const pool = configured()
      const lake = await mainNow()
      const scope = await scopeOf(lake, visible)
      const options = { signal: AbortSignal.timeout(limits.rpcTimeoutMs) }
      const { tables } = await pool
        .call((service) => service.getSchema({ lake, scope }, options))
        .catch(refuse)
      const named = tables.flatMap(({ table, columns }) => {
        const layer = LAYERS.find((known) => known === table?.layer)
        if (table === undefined || layer === undefined) return []
        return [{ namespace: table.namespace, layer, name: table.name, columns }]
      })
      const ordered = named.sort((a, b) => (tableKey(a) < tableKey(b) ? -1 : 1))
      return {
        tables: ordered
          .slice(page.offset, page.offset + page.limit)
          .map((table) => ({ ...table, columns: table.columns.map(({ name, type }) => ({ name, type })) })),
        total: ordered.length,
      }
    },
  }
}

/** What the query itself is to blame for; all of these are the client's to mend. */
const OF_THE_QUERY: ReadonlySet<Code> = new Set([
  Code.InvalidArgument,
  Code.DeadlineExceeded,
  Code.ResourceExhausted,
  Code.FailedPrecondition,
  Code.Aborted,
])

/** A service that answers, but has too many queries waiting, says so by this. */
const BUSY_HEADER = 'sluice-busy'

const busy = (why: string, cause?: unknown) =>
  new AppError(503, 'UNAVAILABLE', `${SERVICE} is busy: ${why}`, { cause })

/** What a query service refused, as this API says it. */
function refuse(error: unknown): never {
  if (error instanceof AppError) {
    const { cause } = error
    throw cause instanceof ConnectError && cause.metadata.has(BUSY_HEADER)
      ? busy(cause.rawMessage, cause)
      : error
  }
  const { code, rawMessage } = ConnectError.from(error)
  if (OF_THE_QUERY.has(code)) throw invalid('sql', rawMessage)
  if (code === Code.Canceled) throw unavailable(SERVICE, error)
  throw error
}
