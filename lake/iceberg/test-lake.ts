// A lake for tests. Objects are files in a directory, which an HTTP server offers to an independent reader. The catalog is one
// map. A write takes all steps of a run (DuckDB's COPY, manifests, commit).

import { afterAll } from 'bun:test'
import { readFileSync, writeFileSync } from 'node:fs'
import { mkdir, mkdtemp, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { DuckDBInstance } from '@duckdb/node-api'
import { icebergRead } from 'icebird'
import { quoteLiteral } from '../quote.ts'
import type { PartitionTuple } from './format/data-file.ts'
import type { Marking } from './format/layout.ts'
import { dataLocation, keyOf, metadataLocation, tableLocation } from './format/location.ts'
import { currentSchema, parseMetadata, serializeMetadata, type TableMetadata } from './format/metadata.ts'
import { checkRequirements } from './format/requirements.ts'
import type { Column, NestedField, Schema } from './format/types.ts'
import { applyUpdates } from './format/updates.ts'
import { deletedLines } from './read/deletion-vector.ts'
import { comparedFields, equalityColumn } from './read/equality-columns.ts'
import { dataFilesOf, type LiveFile, type ManifestReader, makeManifestReader } from './read/scan.ts'
import { localFiles, POSITION_FIELDS, readTable, type StoredFile, storedFilesOf } from './read/table-sql.ts'
import { deletionVector } from './read/test-vector.ts'
import { fieldIdsLiteral } from './sql/sql.ts'
import { type NewDataFile, type NewDeleteFile, replacedFiles } from './write/new-files.ts'
import { newTable } from './write/new-table.ts'
import { addedFiles, storedParts, type TableChange, type WriteRules } from './write/result-write.ts'
import { copyResultFrom, metricsOf } from './write/stats.ts'
import { writeByStrategy } from './write/strategy.ts'
import { planCommit, type Write } from './write/write.ts'
import type { WriteEngine } from './write/write-engine.ts'

interface TestLake {
  readonly root: string
  readonly reader: ManifestReader
  readObject(location: string): Promise<Uint8Array>
  pathOf(location: string): string
  describe(sql: string): Promise<Column[]>
  rows(sql: string): Promise<Record<string, unknown>[]>
  /** Runs the query and commits its rows. `table` null creates the table. */
  write(table: TableMetadata | null, sql: string, operation: 'append' | 'overwrite'): Promise<TableMetadata>
  /** Runs the query and commits its rows by a pipeline's write rules. */
  writeBy(
    table: TableMetadata | null,
    sql: string,
    rules: Partial<WriteRules>,
    more?: { at?: string; fileRows?: number; marking?: Marking },
  ): Promise<{ table: TableMetadata; change: TableChange; opened: string[] }>
  /** SQL that reads the table's current snapshot. Default: its current columns. */
  source(table: TableMetadata, schema?: Schema): Promise<string>
  /** Commits rows and row-level deletes of one partition in one snapshot, as another engine does. */
  writeDelta(table: TableMetadata, delta: Delta): Promise<TableMetadata>
}

/** The additions of another engine in one commit. */
interface Delta {
  readonly specId?: number
  readonly partition?: PartitionTuple
  /** A query with columns of the table. */
  readonly rows?: string
  /** A query with the columns `file_path` and `pos`. `location` stands for the location of the new rows. */
  readonly positions?: (location: string) => string
  /** Deleted rows by the locations of their data files, in one Puffin file. */
  readonly vectors?: readonly (readonly [dataFile: string, rows: readonly number[]])[]
  /** A query with the columns whose values identify deleted rows. */
  readonly equal?: string
  /** The ids of the compared fields, if some are inside structs. The query has the columns that contain these fields. */
  readonly equalityIds?: readonly number[]
}

const AT = Date.UTC(2026, 0, 1)

const RULES: WriteRules = {
  mergeStrategy: 'full_refresh',
  uniqueKey: [],
  watermarkColumn: '',
  partitionColumn: '',
  partitionBy: [],
  targetFileSize: null,
  onSchemaChange: 'add',
  scdValidFrom: 'valid_from',
  scdValidTo: 'valid_to',
}

/** A lake for the tests of a file. */
export async function useTestLake(): Promise<TestLake> {
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
  const localOf = (files: readonly LiveFile[]) =>
    localFiles(files, new Map(storedFilesOf(files).map((stored) => [stored.id, localPath(stored)])))
  /** The file itself, or a new file with the rows of a deletion vector. */
  const localPath = ({ id, location, recordCount, vector }: StoredFile) => {
    if (vector === undefined) return pathOf(location)
    const path = join(directory, `${Bun.hash(id)}.csv`)
    const blob = readFileSync(pathOf(location)).subarray(vector.offset, vector.offset + vector.sizeBytes)
    writeFileSync(path, [...deletedLines(blob, recordCount)].join(''))
    return path
  }
  const rows: TestLake['rows'] = async (sql) => (await duckdb.runAndReadAll(sql)).getRowObjectsJS()
  const describe: TestLake['describe'] = async (sql) =>
    (await rows(`DESCRIBE ${sql}`)).map((row) => ({
      name: String(row.column_name),
      type: String(row.column_type),
    }))

  const commit = async (write: Omit<Write, 'reader' | 'at' | 'uuid'>) => {
    const plan = await planCommit({ ...write, reader, at: AT, uuid: crypto.randomUUID() })
    for (const { location, bytes } of plan.objects) await store(location, bytes)
    const base = write.isStaged ? null : write.metadata
    checkRequirements(base, plan.requirements)
    const metadata = applyUpdates(base, plan.updates, { at: AT })
    const text = serializeMetadata(metadata)
    await store(metadataLocation(metadata.location, metadata.snapshots.length, crypto.randomUUID()), text)
    return parseMetadata(text)
  }

  const engineOf = async (): Promise<
    WriteEngine & { close(): void; define(sql: string): Promise<Column[]> }
  > => {
    const connection = await instance.connect()
    const read = async (sql: string) => connection.runAndReadAll(sql)
    return {
      run: async (sql) => {
        await connection.run(sql)
      },
      query: async (sql) =>
        (await read(sql))
          .getRowsJS()
          .map((row) => row.map((value) => (value === null ? null : String(value)))),
      copy: async (sql) => (await read(sql)).getRowObjectsJS().map(copyResultFrom),
      define: async (sql) => {
        await connection.run(`CREATE TEMP VIEW sluice_result AS ${sql}`)
        const rows = (await read('DESCRIBE FROM sluice_result')).getRowObjectsJS()
        return rows.map((row) => ({ name: String(row.column_name), type: String(row.column_type) }))
      },
      close: () => connection.closeSync(),
    }
  }

  const writeBy: TestLake['writeBy'] = async (
    table,
    sql,
    rules,
    { at = '2026-01-01T00:00:00Z', fileRows, marking } = {},
  ) => {
    const local = await mkdtemp(join(directory, 'write-'))
    const [engine, other] = await Promise.all([engineOf(), engineOf()])
    const opened: string[] = []
    try {
      const change = await writeByStrategy({
        rules: { ...RULES, ...rules },
        result: 'sluice_result',
        columns: await engine.define(sql),
        table,
        stage: (shape) => {
          const uuid = crypto.randomUUID()
          const name = { namespace: 'default', layer: 'silver', name: 'flights' } as const
          return newTable({ ...shape, uuid, location: tableLocation(root, name, uuid), at: AT })
        },
        at,
        directory: local,
        ...(fileRows !== undefined && { fileRows: () => fileRows }),
        ...(marking !== undefined && { marking: () => marking }),
        reader,
        engine,
        open: async (files) => {
          opened.push(...files.map(({ file }) => file.location))
          return { engine: other, files: localOf(files.map(({ file }) => file)) }
        },
      })
      if (change.operation === null) return { table: change.metadata, change, opened }
      const files: NewDataFile[] = []
      for (const { path, ...file } of addedFiles(change)) {
        const location = dataLocation(change.metadata.location, crypto.randomUUID())
        await mkdir(dirname(pathOf(location)), { recursive: true })
        await rename(path, pathOf(location))
        files.push({ ...file, location })
      }
      const parts = storedParts(change, files)
      const metadata = await commit({
        metadata: change.metadata,
        isStaged: table === null,
        operation: change.operation,
        schema: change.schema.schema,
        partitionSpec: change.partitionSpec,
        properties: change.properties,
        files: parts.files,
        deletes: parts.deletes,
        replaced: replacedFiles(change.replaced),
        deletedRows: change.deletedRows,
        compacted: {
          files: parts.compacted,
          replaced: replacedFiles(change.compacted.replaced),
          deletedRows: change.compacted.deletedRows,
          uuid: crypto.randomUUID(),
        },
      })
      return { table: metadata, change, opened }
    } finally {
      engine.close()
      other.close()
    }
  }

  const storeVectors = async (
    vectors: NonNullable<Delta['vectors']>,
    { table, ...scope }: { table: TableMetadata; partition: PartitionTuple; specId: number },
  ): Promise<NewDeleteFile[]> => {
    const location = dataLocation(table.location, crypto.randomUUID()).replace(/parquet$/, 'puffin')
    const magic = new TextEncoder().encode('PFA1')
    const blobs = vectors.map(([, rows]) => deletionVector(rows))
    await store(location, new Uint8Array(await new Blob([magic, ...blobs, magic]).arrayBuffer()))
    let offset = magic.length
    return vectors.map(([referencedDataFile, rows], i): NewDeleteFile => {
      const contentSizeBytes = blobs[i]?.length ?? 0
      const vector = { referencedDataFile, contentOffset: offset, contentSizeBytes }
      offset += contentSizeBytes
      const metrics = { recordCount: rows.length, sizeBytes: offset + magic.length, columns: new Map() }
      return { content: 'position-deletes', location, format: 'PUFFIN', ...vector, ...metrics, ...scope }
    })
  }

  const writeDelta: TestLake['writeDelta'] = async (table, delta) => {
    const { specId = table['default-spec-id'], partition = {}, rows: data, positions, equal } = delta
    const copy = async (sql: string, fields: readonly NestedField[]) => {
      const location = dataLocation(table.location, crypto.randomUUID())
      await mkdir(dirname(pathOf(location)), { recursive: true })
      const [copied] = await rows(
        `COPY (${sql}) TO ${quoteLiteral(pathOf(location))} (FORMAT parquet, FIELD_IDS ${fieldIdsLiteral(fields)}, RETURN_STATS)`,
      )
      return { location, partition, ...metricsOf({ type: 'struct', fields }, copyResultFrom(copied ?? {})) }
    }
    const all = table.schemas.toReversed().flatMap(({ fields }) => fields)
    const fieldsIn = async (sql: string) =>
      (await describe(sql)).flatMap(({ name }) => all.find((field) => field.name === name) ?? [])
    const files = data === undefined ? [] : [await copy(data, await fieldsIn(data))]
    const deletes: NewDeleteFile[] = []
    if (positions)
      deletes.push({
        ...(await copy(positions(files[0]?.location ?? ''), POSITION_FIELDS)),
        content: 'position-deletes',
        specId,
      })
    if (delta.vectors) deletes.push(...(await storeVectors(delta.vectors, { table, partition, specId })))
    if (equal !== undefined) {
      const named = await fieldsIn(equal)
      const equalityIds = delta.equalityIds ?? named.map(({ id }) => id)
      const fields = comparedFields(equalityIds.map((id) => equalityColumn(id, 'equal', table)))
      deletes.push({ ...(await copy(equal, fields)), content: 'equality-deletes', specId, equalityIds })
    }
    return commit({ metadata: table, isStaged: false, operation: 'append', files, deletes })
  }

  afterAll(async () => {
    duckdb.closeSync()
    instance.closeSync()
    await new Promise((resolve) => {
      server.close(resolve)
      server.closeAllConnections()
    })
    await rm(directory, { recursive: true })
  })
  return {
    root,
    reader,
    readObject,
    pathOf,
    describe,
    rows,
    write: async (table, sql, operation) => {
      const mergeStrategy = operation === 'append' ? 'append_only' : 'full_refresh'
      return (await writeBy(table, sql, { mergeStrategy })).table
    },
    writeBy,
    writeDelta,
    source: async (table, schema = currentSchema(table)) => {
      const files = await dataFilesOf(table, table['current-snapshot-id'] ?? 0n, reader)
      return readTable(schema, localOf(files))
    },
  }
}

/** The rows as another Iceberg reader reads them. Its types declare ids as numbers, but its code only compares ids. */
export const readIndependently = (table: TableMetadata) =>
  icebergRead({
    tableUrl: table.location,
    metadata: table as unknown as Parameters<typeof icebergRead>[0]['metadata'],
  })
