import type { TableName } from '../../../ground/names.ts'
import { snapshotById, type TableMetadata } from '../../../lake/iceberg/format/metadata.ts'
import {
  type CatalogClient,
  CatalogError,
  Conflict,
  catalogClient,
  type LoadedTable,
  NotFound,
  ServerError,
} from '../../../lake/iceberg/read/client.ts'
import type { StoredView, ViewMetadata } from '../../../lake/iceberg/views/view.ts'
import type { CommitPlan } from '../../../lake/iceberg/write/write.ts'
import type { LakeAccess } from '../../../proto/gen/sluice/runner/v1/runner_pb.ts'
import { messageOf } from '../../core/log.ts'
import { accepted, httpLimits, makeBackoff, patiently } from '../../rpc/http.ts'

// The catalog as one attempt sees it: its branch, through its token. The API may restart while an attempt runs, so reads wait
// for its return. A commit without a clear answer is looked up before it is sent again.

export interface BranchCatalog {
  /** Null: the table does not exist. */
  load(table: TableName): Promise<TableMetadata | null>
  /** The table with the branch's newest commit, which is '' for a branch without commits. Null: the table does not exist. */
  head(table: TableName): Promise<{ metadata: TableMetadata; commit: string } | null>
  /**
   * Commits exactly once, even if requests are repeated. Returns the branch's commit. Throws Conflict when the table has
   * changed.
   */
  commit(table: TableName, plan: CommitPlan): Promise<string>
  /** Null: the view does not exist. */
  loadView(view: TableName): Promise<ViewMetadata | null>
  /** Stores a view. Returns the branch's commit; null when the branch has this very view already. */
  storeView(view: TableName, stored: StoredView): Promise<string | null>
}

/** The configuration key under which the catalog returns the branch's commit that holds the table. */
const COMMIT = 'x-sluice-commit'

/** All methods throw CatalogError. */
export function openBranchCatalog(lake: LakeAccess, signal: AbortSignal): BranchCatalog {
  const client = catalogClient({
    baseUrl: lake.catalogUrl,
    // Sluice's own catalog would return this prefix. Setting it here saves one call per attempt.
    prefix: encodeURIComponent(lake.warehouse),
    token: lake.token,
    signal,
    // The client's deadline covers all tries of one read.
    timeoutMs: httpLimits.patienceMs + httpLimits.timeoutMs,
    fetch: (url, init) =>
      init.method === 'GET'
        ? readPatiently(url, init, signal)
        : fetch(url, {
            ...init,
            signal: AbortSignal.any([signal, AbortSignal.timeout(httpLimits.timeoutMs)]),
          }),
  })
  return {
    load: async (table) => (await loaded(client, table))?.metadata ?? null,
    async head(table) {
      const found = await loaded(client, table)
      return found && { metadata: found.metadata, commit: found.config[COMMIT] ?? '' }
    },
    commit: (table, plan) => commitOnce(client, table, plan, signal),
    loadView: (view) =>
      client.loadView(identifierOf(view)).catch((error: unknown) => {
        if (error instanceof NotFound) return null
        throw error
      }),
    storeView: (view, stored) => storeOnce(client, view, stored, signal),
  }
}

/** The catalog does not store the same view twice, so a request without a clear answer is repeated. */
async function storeOnce(client: CatalogClient, view: TableName, stored: StoredView, signal: AbortSignal) {
  const backoff = makeBackoff(signal)
  for (let isUnclear = false; ; ) {
    try {
      const config = await client.storeView(identifierOf(view), stored)
      return config[COMMIT] ?? null
    } catch (error) {
      signal.throwIfAborted()
      const isOwnWork = isUnclear && error instanceof Conflict
      if ((!isOwnWork && !(error instanceof ServerError)) || backoff.isOver()) throw error
      isUnclear = true
    }
    await backoff.pause()
  }
}

/** Throws an error that the client does not retry itself. */
async function readPatiently(url: string, init: RequestInit, signal: AbortSignal): Promise<Response> {
  try {
    return await patiently(
      async (deadline) => {
        const response = await fetch(url, { ...init, signal: deadline })
        return response.status < 500 ? response : accepted(response, 'reading a table')
      },
      { signal },
    )
  } catch (error) {
    signal.throwIfAborted()
    throw new CatalogError(0, 'NoAnswer', `the catalog does not answer: ${messageOf(error)}`, {
      cause: error,
    })
  }
}

async function loaded(client: CatalogClient, table: TableName): Promise<LoadedTable | null> {
  try {
    return await client.loadTable(identifierOf(table))
  } catch (error) {
    if (error instanceof NotFound && error.type === 'NoSuchTableException') return null
    throw error
  }
}

async function commitOnce(client: CatalogClient, table: TableName, plan: CommitPlan, signal: AbortSignal) {
  const backoff = makeBackoff(signal)
  for (let isUnclear = false; ; ) {
    try {
      return commitOf(await client.commit(identifierOf(table), plan))
    } catch (error) {
      signal.throwIfAborted()
      const isOwnWork = isUnclear && error instanceof Conflict
      if (!isOwnWork && !(error instanceof ServerError)) throw error
      const landed = await landedCommit(client, table, plan)
      if (landed !== null) return landed
      if (isOwnWork || backoff.isOver()) throw error
      isUnclear = true
    }
    await backoff.pause()
  }
}

/** Returns the branch's commit if the table on the branch has the plan's snapshot; otherwise null. */
async function landedCommit(
  client: CatalogClient,
  table: TableName,
  plan: CommitPlan,
): Promise<string | null> {
  const found = await loaded(client, table)
  const isLanded = found !== null && snapshotById(found.metadata, plan.snapshot['snapshot-id']) !== undefined
  return isLanded ? commitOf(found.config) : null
}

function commitOf(config: LoadedTable['config']): string {
  const commit = config[COMMIT]
  if (commit === undefined) throw new ServerError(200, 'BadAnswer', `the catalog's answer has no ${COMMIT}`)
  return commit
}

const identifierOf = ({ namespace, layer, name }: TableName) => ({ namespace: [namespace, layer], name })
