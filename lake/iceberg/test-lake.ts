// A lake for tests: objects in a directory, served over HTTP to an independent reader; a catalog that is one map; and
// the way of a run through all of it (DuckDB's COPY, manifests, commit).

import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { type DuckDBConnection, DuckDBInstance } from '@duckdb/node-api'
import { type NextSchema, schemaForAppend, schemaForReplace } from './evolution.ts'
import { dataLocation, keyOf, metadataLocation, tableLocation } from './location.ts'
import {
  applyUpdates,
  checkRequirements,
  currentSchema,
  newTable,
  parseMetadata,
  serializeMetadata,
  type TableMetadata,
} from './metadata.ts'
import { dataFilesOf, type ManifestReader, makeManifestReader } from './scan.ts'
import { fieldIdsLiteral, fieldsWritten, quoteText, readTable, selectForWrite } from './sql.ts'
import { copyResultFrom, metricsOf } from './stats.ts'
import type { Column } from './types.ts'
import { type CommitPlan, type NewDataFile, planCommit, type Write } from './write.ts'

export interface TestLake {
  readonly root: string
  readonly duckdb: DuckDBConnection
  readonly reader: ManifestReader
  readObject(location: string): Promise<Uint8Array>
  pathOf(location: string): string
  describe(sql: string): Promise<Column[]>
  rows(sql: string): Promise<Record<string, unknown>[]>
  /** Runs the query and commits its rows; `table` null creates it. */
  write(table: TableMetadata | null, sql: string, operation: Write['operation']): Promise<TableMetadata>
  commit(write: Omit<Write, 'reader' | 'at' | 'uuid'>): Promise<{ metadata: TableMetadata; plan: CommitPlan }>
  /** SQL that reads the table's current snapshot. */
  source(table: TableMetadata): Promise<string>
  close(): Promise<void>
}

const AT = Date.UTC(2026, 0, 1)

export async function openTestLake(): Promise<TestLake> {
  const directory = await mkdtemp(join(tmpdir(), 'sluice-lake-'))
  await mkdir(join(directory, '_lake'))
  const server = createServer((request, response) => {
    const { pathname } = new URL(request.url ?? '/', 'http://localhost')
    readFile(join(directory, decodeURIComponent(pathname))).then(
      (bytes) => response.end(bytes),
      () => response.writeHead(404).end(),
    )
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  const root = `http://127.0.0.1:${port}/`
  const instance = await DuckDBInstance.create(':memory:', { threads: '1' })
  const duckdb = await instance.connect()

  const pathOf = (location: string) => join(directory, keyOf(root, location))
  const readObject = async (location: string) => new Uint8Array(await readFile(pathOf(location)))
  const reader = makeManifestReader(readObject)
  const store = async (location: string, bytes: Uint8Array | string) => {
    await mkdir(dirname(pathOf(location)), { recursive: true })
    await writeFile(pathOf(location), bytes, { flag: 'wx' })
  }
  const rows: TestLake['rows'] = async (sql) => (await duckdb.runAndReadAll(sql)).getRowObjectsJS()
  const describe: TestLake['describe'] = async (sql) =>
    (await rows(`DESCRIBE ${sql}`)).map((row) => ({
      name: String(row.column_name),
      type: String(row.column_type),
    }))

  const commit: TestLake['commit'] = async (write) => {
    const plan = await planCommit({ ...write, reader, at: AT, uuid: crypto.randomUUID() })
    for (const { location, bytes } of plan.objects) await store(location, bytes)
    const base = write.isStaged ? null : write.metadata
    checkRequirements(base, plan.requirements)
    const metadata = applyUpdates(base, plan.updates, { at: AT })
    const text = serializeMetadata(metadata)
    await store(metadataLocation(metadata.location, metadata.snapshots.length, crypto.randomUUID()), text)
    return { metadata: parseMetadata(text), plan }
  }

  const write: TestLake['write'] = async (table, sql, operation) => {
    const columns = await describe(sql)
    const next = nextSchema(table, columns, operation)
    const metadata = table ?? stagedTable(next)
    const location = dataLocation(metadata.location, crypto.randomUUID())
    await mkdir(dirname(pathOf(location)), { recursive: true })
    const fields = fieldsWritten(columns, next.schema)
    const result = await duckdb.runAndReadAll(
      `COPY (SELECT ${selectForWrite(columns, next.schema)} FROM (${sql}))
       TO ${quoteText(pathOf(location))} (FORMAT parquet, RETURN_STATS, FIELD_IDS ${fieldIdsLiteral(fields)})`,
    )
    const files = result
      .getRowObjectsJS()
      .map(
        (row): NewDataFile => ({ location, ...metricsOf({ type: 'struct', fields }, copyResultFrom(row)) }),
      )
      .filter((file) => file.recordCount > 0)
    return (await commit({ metadata, isStaged: table === null, operation, schema: next.schema, files }))
      .metadata
  }

  const stagedTable = ({ schema }: NextSchema): TableMetadata => {
    const uuid = crypto.randomUUID()
    const name = { namespace: 'default', layer: 'silver', name: 'flights' }
    return newTable({ uuid, location: tableLocation(root, name, uuid), schema, at: AT })
  }

  return {
    root,
    duckdb,
    reader,
    readObject,
    pathOf,
    describe,
    rows,
    write,
    commit,
    source: async (table) => {
      const files = await dataFilesOf(table, table['current-snapshot-id'] ?? 0n, reader)
      return readTable(
        currentSchema(table),
        files.map((file) => pathOf(file.location)),
      )
    },
    close: async () => {
      duckdb.closeSync()
      instance.closeSync()
      await new Promise((resolve) => {
        server.close(resolve)
        server.closeAllConnections()
      })
      await rm(directory, { recursive: true })
    },
  }
}

function nextSchema(
  table: TableMetadata | null,
  columns: Column[],
  operation: Write['operation'],
): NextSchema {
  if (!table) return schemaForReplace(columns)
  const previous = { schema: currentSchema(table), lastColumnId: table['last-column-id'] }
  return operation === 'append' ? schemaForAppend(columns, previous) : schemaForReplace(columns, previous)
}
