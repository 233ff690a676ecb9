// A query service for tests: the real process, called over HTTP, with a real catalog and real tables.

import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Client, createClient } from '@connectrpc/connect'
import { columnsWith } from '../../app/composition/lake-access.ts'
import { systemClock } from '../../app/core/clock.ts'
import { newId } from '../../app/core/ids.ts'
import type { Layer } from '../../app/core/names.ts'
import { openTestCatalog, type TestCatalog } from '../../app/iceberg/test-catalog.ts'
import { makeQueryService } from '../../app/query/service.ts'
import { queryAt } from '../../app/rpc/clients.ts'
import { makePool } from '../../app/rpc/pool.ts'
import { headOfMain } from '../../app/versions/store/branches.ts'
import { type JsonObject, objectsOf } from '../../lake/engine/test-json.ts'
import { Health } from '../../proto/gen/grpc/health/v1/health_pb.ts'
import { QueryService } from '../../proto/gen/sluice/query/v1/query_pb.ts'
import { until } from '../../tools/kit/until.ts'
import { startSidecar } from '../core/testing.ts'
import { testAccess, transportToSidecar } from '../rpc/testing.ts'

export interface TestQueries {
  catalog: TestCatalog
  client: Client<typeof QueryService>
  url: string
  /** Process ids of the running engine processes. */
  engines(): number[]
  /** Writes a table and merges it as one commit of main. `name` is `namespace.layer.name`. */
  table(name: string, query: string, operation?: 'append' | 'overwrite'): Promise<void>
  lake(): Promise<TestLakeView>
  query(
    sql: string,
    options?: QueryOptions,
  ): Promise<{ columns: string[]; rows: JsonObject[]; truncated: boolean }>
  isHealthy(): Promise<boolean>
  log(): string
  close(): Promise<void>
}

interface TestLakeView {
  commit: bigint
  catalogUrl: string
  objectsUrl: string
  token: string
  catalogId: string
}

export interface QueryOptions {
  /** The commit of main to read. Without it, the current one. */
  lake?: TestLakeView
  namespace?: string
  limit?: number
  timeoutMs?: number
  queryId?: string
  /** Paths of the tables that the caller may see. Without it, all tables. */
  visible?: string[]
}

const MAIN = join(import.meta.dirname, 'main.ts')

/** `env.API_URLS` adds addresses to the catalog's own. `through` is a command that starts the service and ends with it. */
export async function startTestQueries(
  env: Record<string, string> = {},
  through: readonly string[] = [],
): Promise<TestQueries> {
  const [catalog, directory] = await Promise.all([
    openTestCatalog(undefined, {}, null, (...asked) => columnsOfQuery(...asked)),
    mkdtemp(join(tmpdir(), 'sluice-query-')),
  ])
  const lines: string[] = []
  const sidecar = await startSidecar(
    MAIN,
    { SCRATCH_DIR: directory, ...env, API_URLS: [catalog.url, env.API_URLS ?? ''].join(',') },
    { through, onLine: (line) => lines.push(line) },
  )
  const { url } = sidecar
  const transport = transportToSidecar(url)
  const client = createClient(QueryService, transport)
  const health = createClient(Health, transport)

  const services = makePool('query service', [queryAt(url, () => {}, testAccess(catalog.url))])
  const { sql, tokens, url: publicUrl } = catalog
  const columnsOfQuery = columnsWith(
    makeQueryService({ sql, tokens, clock: systemClock, newId, publicUrl, services }),
  )
  const isHealthy = () =>
    health.check({ service: '' }).then(
      ({ status }) => status === 1,
      () => false,
    )
  // The service listens before its first engine is warm.
  await until(isHealthy)

  const lake: TestQueries['lake'] = async () => {
    const commit = await headOfMain(catalog.sql)
    return {
      commit: BigInt(commit),
      catalogUrl: `${catalog.url}/catalog`,
      objectsUrl: `${catalog.url}/lake/objects`,
      token: catalog.tokens.read({ commit, expiresAt: new Date(Date.now() + 60_000) }),
      catalogId: catalog.tokens.catalogId,
    }
  }
  return {
    catalog,
    client,
    url,
    engines: sidecar.children,
    lake,
    table: async (path, query, operation = 'overwrite') => {
      const [namespace = '', layer = '', name = ''] = path.split('.')
      const attempt = await catalog.attempt({ namespace, layer: layer as Layer, name })
      const { commit } = await attempt.write(query, operation)
      if ((await catalog.merge(attempt, commit)) !== 'merged') throw new Error(`${path} was not merged`)
    },
    query: async (sql, options = {}) => {
      const { namespace = '', limit = 1_000, timeoutMs = 60_000, queryId = '', visible } = options
      const view = options.lake ?? (await lake())
      const scope = visible && { tables: visible.map(tableNamed) }
      const request = { sql, namespace, limit: BigInt(limit), timeoutMs, queryId, lake: view, scope }
      const { arrowIpc, truncated } = await client.executeQuery(request)
      const { columns, rows } = await objectsOf(arrowIpc)
      return { columns: columns.map(({ name, type }) => `${name} ${type}`), rows, truncated }
    },
    isHealthy,
    log: () => lines.join('\n'),
    close: async () => {
      await sidecar.stop()
      await catalog.close()
      await rm(directory, { recursive: true, force: true })
    },
  }
}

/** A table by its path `namespace.layer.name`. */
export function tableNamed(path: string) {
  const [namespace = '', layer = '', name = ''] = path.split('.')
  return { namespace, layer, name }
}
