// A catalog for tests, used in the way of a runner. It has real Postgres, a disk store, and HTTP on a free port.
import assert from 'node:assert'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type DuckDBConnection, DuckDBInstance } from '@duckdb/node-api'
import { type Database, openDatabase } from '../../drizzle/client.ts'
import type { TableName } from '../../ground/names.ts'
import { dataLocation, keyIn } from '../../lake/iceberg/format/location.ts'
import { currentSchema, type TableMetadata } from '../../lake/iceberg/format/metadata.ts'
import type { NestedField, Schema } from '../../lake/iceberg/format/types.ts'
import {
  type CatalogClient,
  caller,
  catalogClient,
  encodeNamespace,
  type LoadedTable,
  NotFound,
  type TableIdentifier,
  tableFrom,
} from '../../lake/iceberg/read/client.ts'
import { deletedLines } from '../../lake/iceberg/read/deletion-vector.ts'
import {
  dataFilesOf,
  type LiveFile,
  liveManifestsOf,
  makeManifestReader,
  tableFilesOf,
} from '../../lake/iceberg/read/scan.ts'
import { localFiles, POSITION_FIELDS, readTable, storedFilesOf } from '../../lake/iceberg/read/table-sql.ts'
import { fieldIdsLiteral } from '../../lake/iceberg/sql/sql.ts'
import { schemaForAppend, schemaForReplace } from '../../lake/iceberg/write/evolution.ts'
import { replacedFiles } from '../../lake/iceberg/write/new-files.ts'
import { fieldsWritten, selectForWrite } from '../../lake/iceberg/write/projection.ts'
import { type CopyResult, metricsOf } from '../../lake/iceberg/write/stats.ts'
import { type CommitPlan, planCommit, planReplacement } from '../../lake/iceberg/write/write.ts'
import { quoteLiteral } from '../../lake/quote.ts'
import { testDatabase } from '../../tools/service/database.ts'
import { type CodeVisibility, seesAll } from '../access/code-visibility.ts'
import { makeTokens, type Tokens } from '../attempt-access/tokens.ts'
import { makeWorkFiles } from '../attempt-access/work-files.ts'
import { makeCatalog } from '../composition/catalog.ts'
import { testApp, testConfigOf, testLog } from '../composition/test-app.ts'
import { systemClock } from '../core/clock.ts'
import { newId } from '../core/ids.ts'
import { makeNamespaceService } from '../namespaces/service.ts'
import { openObjectStore } from '../objects/open.ts'
import type { ObjectStore } from '../objects/port.ts'
import { type CredentialIssuer, makeCredentials, REGION } from '../s3/credentials.ts'
import { s3Routes } from '../s3/routes.ts'
import { makeS3Service } from '../s3/service.ts'
import { makeMetadataFiles } from '../versions/metadata-files.ts'
import { headOfMain, mergeBranches, openBranches } from '../versions/store/branches.ts'
import { tableIn } from '../versions/views.ts'
import type { MergeToMain } from './user-writing.ts'
import { makeMayUse, makeVending } from './vending.ts'
import type { ColumnsOfQuery } from './view-binding.ts'

/** The root of a disk store. */
export const ROOT = 's3://sluice/'
export const BUCKET = 'sluice'

export interface TestCatalog {
  db: Database['db']
  sql: Database['sql']
  session: Database['session']
  objects: ObjectStore
  /** The directory of the store. */
  objectsRoot: string
  tokens: Tokens
  credentials: CredentialIssuer
  /** The base URL without a trailing slash. */
  url: string
  /** The method and path of each HTTP request so far, in order, such as `GET /catalog/...`. */
  requests: string[]
  fetch(path: string, token: string | null, init?: RequestInit): Promise<Response>
  /** Opens a branch on the head of main with a token and a client of its attempt. */
  attempt(table: TableName): Promise<TestAttempt>
  /** A client of a warehouse with this token. */
  client(warehouse: string, token: string): Promise<TestClient>
  /** A token for a commit of main, by default its head, with a client. */
  reader(at?: number): Promise<{ token: string; client: TestClient; commit: number }>
  merge(attempt: TestAttempt, testedCommit: string): Promise<string | undefined>
  /** The rows of a table. DuckDB reads files that were fetched through the gateway. */
  rows(token: string, metadata: TableMetadata): Promise<Record<string, unknown>[]>
  close(): Promise<void>
}

/** The client of a runner, with additional calls of other engines. */
interface TestClient extends Pick<CatalogClient, 'loadTable'> {
  createTable(table: TableIdentifier, create: { schema: Schema; isStaged: boolean }): Promise<LoadedTable>
  /** Commits and returns the new metadata. */
  commit(table: TableIdentifier, commit: Pick<CommitPlan, 'requirements' | 'updates'>): Promise<LoadedTable>
  namespaceExists(namespace: readonly string[]): Promise<boolean>
  createNamespace(namespace: readonly string[]): Promise<void>
}

export interface TestAttempt {
  runId: string
  branch: string
  token: string
  client: TestClient
  /**
   * Writes the result of a query as data files and manifests, and plans the commit. With `directory`, the data files are there,
   * below the table's directory, as another engine writes them.
   */
  plan(query: string, operation: 'append' | 'overwrite', directory?: string): Promise<CommitPlan>
  /** Plans and commits. Returns the new metadata and the commit's id. */
  write(
    query: string,
    operation: 'append' | 'overwrite',
    directory?: string,
  ): Promise<{ metadata: TableMetadata; commit: string }>
  /** Combines all data files of the table in a `replace` snapshot, as maintenance does. */
  compact(): Promise<{ metadata: TableMetadata; commit: string }>
  /** Deletes rows of the table's first data file by their positions, as another engine does. */
  deletePositions(positions: readonly number[]): Promise<{ metadata: TableMetadata; commit: string }>
}

/**
 * `appParts` override an open installation. With `mergeToMain`, users commit to main.
 */
export async function openTestCatalog(
  codeVisibility?: CodeVisibility,
  appParts: Parameters<typeof testApp>[0] = {},
  mergeToMain: ((sql: Database['sql']) => MergeToMain) | null = null,
  columnsOfQuery: ColumnsOfQuery | null = null,
): Promise<TestCatalog> {
  const postgres = await testDatabase()
  const { db, sql, session, close } = openDatabase(postgres.url, {
    connections: 1,
    rawConnections: 4,
    application: 'test',
  })
  const directory = await mkdtemp(join(tmpdir(), 'sluice-catalog-'))
  const scratch = directory
  const objects = await openObjectStore({ kind: 'disk', root: join(directory, 'objects') })
  const tokens = makeTokens('a secret of the tests', ROOT)
  const credentials = makeCredentials('a secret of the tests', systemClock)
  const namespaces = makeNamespaceService({ db })
  const { routes, objectRoutes, userRoutes, endpointOf } = makeCatalog({
    sql,
    objects,
    files: makeMetadataFiles({ objects, newId }),
    tokens,
    lakeRoot: ROOT,
    codeVisibility,
    clock: systemClock,
    newId,
    resources: appParts.ownership?.resources,
    namespaces,
    columnsOfQuery,
    mergeToMain: mergeToMain === null ? null : mergeToMain(sql),
    vending: makeVending({
      credentials,
      lakeRoot: ROOT,
      region: REGION,
      writesMain: mergeToMain !== null,
      shownUrl: null,
    }),
    log: testLog,
  })
  const s3 = makeS3Service({
    config: testConfigOf(appParts.config),
    sql,
    objects,
    bucket: BUCKET,
    credentials,
    works: makeWorkFiles({ sql, objects, codeVisibility: codeVisibility ?? seesAll }),
    maySee: async ({ table, view }, access) =>
      (await tableIn(sql, view, table, await access.visible())) !== null,
    mayUse: makeMayUse(sql),
    mayWrite: async ({ table }) => table.name === 'orders',
    takesFiles: ({ table }) => namespaces.takesFiles(table.namespace),
    clock: systemClock,
    newId,
    log: testLog,
  })
  const app = testApp({
    internal: [routes, objectRoutes],
    foreign: [userRoutes, s3Routes(s3)],
    s3,
    endpointOf: (request) => s3.endpointOf(endpointOf(request)),
    ...appParts,
  })
  const requests: string[] = []
  const server = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    fetch(request) {
      requests.push(`${request.method} ${new URL(request.url).pathname}`)
      return app.fetch(request)
    },
  })
  const url = `http://127.0.0.1:${server.port}`
  const instance = await DuckDBInstance.create(':memory:', { threads: '1' })
  const duckdb = await instance.connect()
  const expiresAt = new Date(Date.now() + 3_600_000)

  const request: TestCatalog['fetch'] = (path, token, init = {}) =>
    fetch(`${url}${path}`, {
      ...init,
      headers: { ...(token !== null && { authorization: `Bearer ${token}` }), ...init.headers },
    })
  const connect = (warehouse: string, token: string) => connectClient(`${url}/catalog`, warehouse, token)
  const readerOf = (token: string) =>
    makeManifestReader(async (location) => {
      const response = await request(`/lake/objects/${pathOf(location)}`, token)
      if (!response.ok) throw new Error(`${location}: ${response.status}`)
      return new Uint8Array(await response.arrayBuffer())
    })

  const localsOf = async (files: readonly LiveFile[], token: string) => {
    const paths = await Promise.all(
      storedFilesOf(files).map(async ({ id, location, recordCount, vector }) => {
        const path = join(directory, `${newId()}.parquet`)
        const content = await request(`/lake/objects/${pathOf(location)}`, token)
        if (vector === undefined) await Bun.write(path, content)
        else {
          const puffin = new Uint8Array(await content.arrayBuffer())
          const blob = puffin.subarray(vector.offset, vector.offset + vector.sizeBytes)
          await Bun.write(path, [...deletedLines(blob, recordCount)].join(''))
        }
        return [id, path] as const
      }),
    )
    return localFiles(files, new Map(paths))
  }

  const attempt: TestCatalog['attempt'] = async (table) => {
    const runId = newId()
    const branch = `run-${runId}-1`
    const base = await headOfMain(sql)
    await sql.begin((tx) => openBranches(tx, [{ branch, base, runId, attempt: 1 }]))
    const token = tokens.attempt({ branch, runId, attempt: 1, target: table, expiresAt })
    const client = await connect(`sluice@${branch}`, token)
    const identifier = { namespace: [table.namespace, table.layer], name: table.name }

    const put = async (location: string, body: Uint8Array) => {
      const path = `/lake/objects/${pathOf(location)}`
      const response = await request(path, token, { method: 'PUT', body: new Uint8Array(body) })
      if (response.status !== 201) throw new Error(`${location}: ${response.status} ${await response.text()}`)
    }
    const copy = async (
      metadata: TableMetadata,
      select: string,
      fields: readonly NestedField[],
      directory?: string,
    ) => {
      const file = join(scratch, `${newId()}.parquet`)
      const result = await duckdb.runAndReadAll(
        `COPY (${select}) TO ${quoteLiteral(file)} (FORMAT parquet, RETURN_STATS, FIELD_IDS ${fieldIdsLiteral(fields)})`,
      )
      const location =
        directory === undefined
          ? dataLocation(metadata.location, newId())
          : `${metadata.location}/${directory}/${newId()}.parquet`
      const bytes = await Bun.file(file).bytes()
      if (directory === undefined) await put(location, bytes)
      else await objects.put(keyIn(location), bytes)
      const [copied] = result.getRowObjectsJS() as unknown as CopyResult[]
      if (copied === undefined) throw new Error('nothing was written')
      return { location, ...metricsOf({ type: 'struct', fields }, copied) }
    }
    const plan: TestAttempt['plan'] = async (query, operation, directory) => {
      const columns = await columnsOf(duckdb, query)
      const existing = await client.loadTable(identifier).catch(() => null)
      const created =
        existing ??
        (await client.createTable(identifier, { schema: schemaForReplace(columns).schema, isStaged: true }))
      const { metadata } = created
      const previous = { schema: currentSchema(metadata), lastColumnId: metadata['last-column-id'] }
      const next =
        existing && operation === 'append'
          ? schemaForAppend(columns, previous)
          : schemaForReplace(columns, previous)
      const fields = fieldsWritten(columns, next.schema)
      const select = `SELECT ${selectForWrite(columns, next.schema)} FROM (${query})`
      const planned = await planCommit({
        metadata,
        isStaged: existing === null,
        operation,
        schema: next.schema,
        files: [await copy(metadata, select, fields, directory)],
        at: Date.now(),
        uuid: crypto.randomUUID(),
        reader: readerOf(token),
      })
      for (const object of planned.objects) await put(object.location, object.bytes)
      return planned
    }
    const write: TestAttempt['write'] = async (...query) => commitPlan(await plan(...query))
    const deletePositions: TestAttempt['deletePositions'] = async (positions) => {
      const { metadata } = await client.loadTable(identifier)
      const reader = readerOf(token)
      const [file] = await dataFilesOf(metadata, metadata['current-snapshot-id'] ?? 0n, reader)
      if (file === undefined) throw new Error('the table has no rows')
      const select = `SELECT ${quoteLiteral(file.location)} AS file_path, unnest([${positions.join()}])::BIGINT AS pos`
      const deleted = await copy(metadata, select, POSITION_FIELDS)
      const specId = metadata['default-spec-id']
      const planned = await planCommit({
        metadata,
        isStaged: false,
        operation: 'append',
        files: [],
        deletes: [{ ...deleted, content: 'position-deletes', specId }],
        at: Date.now(),
        uuid: crypto.randomUUID(),
        reader,
      })
      for (const object of planned.objects) await put(object.location, object.bytes)
      return commitPlan(planned)
    }
    const compact: TestAttempt['compact'] = async () => {
      const { metadata } = await client.loadTable(identifier)
      const reader = readerOf(token)
      const live = await liveManifestsOf(metadata, metadata['current-snapshot-id'] ?? 0n, reader)
      const replaced = await tableFilesOf(live, reader)
      const schema = currentSchema(metadata)
      const locals = await localsOf(
        replaced.map(({ file }) => file),
        token,
      )
      const planned = await planReplacement({
        metadata,
        isStaged: false,
        files: [await copy(metadata, `FROM ${readTable(schema, locals)}`, schema.fields)],
        replaced: replacedFiles(replaced),
        smallManifestsLimit: 2,
        at: Date.now(),
        uuid: crypto.randomUUID(),
        reader,
      })
      for (const object of planned.objects) await put(object.location, object.bytes)
      return commitPlan(planned)
    }
    const commitPlan = async (planned: CommitPlan) => {
      const { metadata, config } = await client.commit(identifier, planned)
      const commit = config['x-sluice-commit']
      assert(commit !== undefined, 'a commit names itself')
      return { metadata, commit }
    }
    return { runId, branch, token, client, plan, write, compact, deletePositions }
  }

  return {
    db,
    sql,
    session,
    objects,
    objectsRoot: join(directory, 'objects'),
    tokens,
    credentials,
    url,
    requests,
    fetch: request,
    attempt,
    client: connect,
    reader: async (at) => {
      const commit = at ?? (await headOfMain(sql))
      const token = tokens.read({ commit, expiresAt })
      return { token, commit, client: await connect('sluice', token) }
    },
    merge: async ({ branch, runId }, testedCommit) => {
      const outcomes = await sql.begin((tx) =>
        mergeBranches(tx, [{ branch, testedCommit, runId, message: 'a run' }]),
      )
      return outcomes.get(branch)?.kind
    },
    rows: async (token, metadata) => {
      const files = await dataFilesOf(metadata, metadata['current-snapshot-id'] ?? 0n, readerOf(token))
      const result = await duckdb.runAndReadAll(
        `FROM ${readTable(currentSchema(metadata), await localsOf(files, token))} ORDER BY ALL`,
      )
      return result.getRowObjectsJson()
    },
    close: async () => {
      await server.stop(true)
      duckdb.closeSync()
      instance.closeSync()
      await objects.close()
      await close()
      await postgres.drop()
      await rm(directory, { recursive: true })
    },
  }
}

const pathOf = (location: string) => keyIn(location).split('/').map(encodeURIComponent).join('/')

async function columnsOf(duckdb: DuckDBConnection, query: string) {
  const described = await duckdb.runAndReadAll(`DESCRIBE ${query}`)
  return described
    .getRowObjectsJS()
    .map((row) => ({ name: String(row.column_name), type: String(row.column_type) }))
}

/** Reads the prefix of the warehouse's routes from the catalog, as other engines do. */
async function connectClient(baseUrl: string, warehouse: string, token: string): Promise<TestClient> {
  const call = caller({ baseUrl, token })
  const config = await call('GET', `/v1/config?warehouse=${encodeURIComponent(warehouse)}`)
  const { prefix } = (config as { overrides: { prefix: string } }).overrides
  const root = `/v1/${prefix}/namespaces`
  const tables = (namespace: readonly string[]) => `${root}/${encodeNamespace(namespace)}/tables`
  return {
    loadTable: catalogClient({ baseUrl, prefix, token }).loadTable,
    createTable: async ({ namespace, name }, { schema, isStaged }) =>
      tableFrom(await call('POST', tables(namespace), { name, schema, 'stage-create': isStaged })),
    commit: async ({ namespace, name }, { requirements, updates }) => {
      const body = { identifier: { namespace, name }, requirements, updates }
      return tableFrom(await call('POST', `${tables(namespace)}/${name}`, body))
    },
    namespaceExists: (namespace) =>
      call('HEAD', `${root}/${encodeNamespace(namespace)}`).then(
        () => true,
        (error) => {
          if (error instanceof NotFound) return false
          throw error
        },
      ),
    createNamespace: async (namespace) => {
      await call('POST', root, { namespace, properties: {} })
    },
  }
}
