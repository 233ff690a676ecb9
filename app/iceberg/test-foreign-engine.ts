// An engine of a user in tests: it reads every warehouse and writes to open branches by Iceberg REST.
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DuckDBInstance } from '@duckdb/node-api'
import { parseJson, stringifyJson } from '../../lake/iceberg/format/json.ts'
import { dataLocation, keyIn } from '../../lake/iceberg/format/location.ts'
import { parseMetadata, type TableMetadata } from '../../lake/iceberg/format/metadata.ts'
import type { NestedField } from '../../lake/iceberg/format/types.ts'
import { dataFilesOf } from '../../lake/iceberg/read/scan.ts'
import { POSITION_FIELDS } from '../../lake/iceberg/read/table-sql.ts'
import { deletionVector } from '../../lake/iceberg/read/test-vector.ts'
import { fieldIdsLiteral } from '../../lake/iceberg/sql/sql.ts'
import { type ViewMetadata, viewMetadataFrom } from '../../lake/iceberg/views/view.ts'
import type { NewDeleteFile } from '../../lake/iceberg/write/new-files.ts'
import { type CopyResult, metricsOf } from '../../lake/iceberg/write/stats.ts'
import { planCommit } from '../../lake/iceberg/write/write.ts'
import { quoteLiteral } from '../../lake/quote.ts'
import { bytesOf } from '../objects/body.ts'
import { makeLakeReader } from '../versions/lake-reader.ts'
import type { TestCatalog } from './test-catalog.ts'

type Deletes = 'positions' | 'vector'

/** Puffin files start with these bytes. */
const MAGIC = new TextEncoder().encode('PFA1')

/** Tables and views are those of `default.gold`. A warehouse is `sluice` or `sluice.{branch, commit or tag}`. */
export async function openForeignEngine(catalog: TestCatalog) {
  const directory = await mkdtemp(join(tmpdir(), 'sluice-engine-'))
  const instance = await DuckDBInstance.create(':memory:', { threads: '1' })
  const duckdb = await instance.connect()
  const reader = makeLakeReader(catalog.objects)
  let files = 0

  async function call(method: string, path: string, body?: object) {
    const answer = await catalog.fetch(`/iceberg/v1/${path}`, null, {
      method,
      ...(body && { body: stringifyJson(body) }),
    })
    const text = await answer.text()
    return {
      status: answer.status,
      text,
      body: text === '' ? {} : (parseJson(text) as { metadata?: object; 'metadata-location'?: string }),
    }
  }
  const tables = (warehouse: string) => `${warehouse}/namespaces/default%1Fgold/tables`

  async function load(warehouse: string, kind: 'tables' | 'views', name: string) {
    const { status, text, body } = await call('GET', `${warehouse}/namespaces/default%1Fgold/${kind}/${name}`)
    if (status === 404) return null
    if (status !== 200 || body.metadata === undefined) throw new Error(`${warehouse} ${name}: ${text}`)
    return { metadata: body.metadata, location: body['metadata-location'] ?? '' }
  }
  /** The stored metadata, which also names the directories that the table had under other names. */
  async function table(warehouse: string, name: string): Promise<TableMetadata | null> {
    const found = await load(warehouse, 'tables', name)
    return found && parseMetadata((await catalog.objects.text(keyIn(found.location)))?.text ?? '')
  }
  async function view(warehouse: string, name: string): Promise<ViewMetadata | null> {
    const found = await load(warehouse, 'views', name)
    return found && viewMetadataFrom(found.metadata)
  }

  const newFile = () => join(directory, `${files++}.parquet`)
  const put = (location: string, bytes: Uint8Array) => catalog.objects.put(keyIn(location), bytes)

  /** Stores the result of a query as a Parquet file of the table. */
  async function copy(metadata: TableMetadata, query: string, fields: readonly NestedField[]) {
    const file = newFile()
    const result = await duckdb.runAndReadAll(
      `COPY (${query}) TO ${quoteLiteral(file)} (FORMAT parquet, RETURN_STATS, FIELD_IDS ${fieldIdsLiteral(fields)})`,
    )
    const location = dataLocation(metadata.location, crypto.randomUUID())
    await put(location, await Bun.file(file).bytes())
    const [copied] = result.getRowObjectsJS() as unknown as CopyResult[]
    if (copied === undefined) throw new Error('nothing was written')
    return { location, ...metricsOf({ type: 'struct', fields }, copied) }
  }

  async function storeVector(metadata: TableMetadata, dataFile: string, rows: readonly number[]) {
    const blob = deletionVector(rows)
    const location = dataLocation(metadata.location, crypto.randomUUID()).replace(/parquet$/, 'puffin')
    const bytes = new Uint8Array([...MAGIC, ...blob, ...MAGIC])
    await put(location, bytes)
    return {
      location,
      format: 'PUFFIN',
      referencedDataFile: dataFile,
      contentOffset: MAGIC.length,
      contentSizeBytes: blob.length,
      recordCount: rows.length,
      sizeBytes: bytes.length,
      columns: new Map(),
    }
  }

  const commit = (branch: string, name: string, body: object) =>
    call('POST', `${tables(`sluice.${branch}`)}/${name}`, body)

  return {
    table,
    view,

    /** The rows of the state that `metadata` describes, in their order. */
    async rows(metadata: TableMetadata): Promise<unknown[]> {
      return catalog.rows((await catalog.reader()).token, metadata)
    },

    /** Whether the branch has renamed the table. */
    async rename(branch: string, from: string, to: string): Promise<boolean> {
      const named = (name: string) => ({ namespace: ['default', 'gold'], name })
      const { status } = await call('POST', `sluice.${branch}/tables/rename`, {
        source: named(from),
        destination: named(to),
      })
      return status === 204
    },

    /**
     * Deletes the first row of a data file that has no deleted rows. Returns the deleted values of the column `a`. Null: no file is
     * left, or the branch has no such table.
     */
    async deleteRow(branch: string, name: string, kind: Deletes): Promise<number[] | null> {
      const first = await table(`sluice.${branch}`, name)
      if (first === null) return null
      if (kind === 'vector' && first['format-version'] < 3)
        await commit(branch, name, {
          requirements: [],
          updates: [{ action: 'upgrade-format-version', 'format-version': 3 }],
        })
      const metadata = (await table(`sluice.${branch}`, name)) ?? first
      // From version 3 on, positions are deleted by vectors only.
      const isVector = metadata['format-version'] >= 3
      const data = await dataFilesOf(metadata, metadata['current-snapshot-id'] ?? 0n, reader)
      const chosen = data.find(({ deletes }) => deletes === undefined)
      if (chosen === undefined) return null
      const local = newFile()
      await writeFile(local, (await bytesOf(catalog.objects, keyIn(chosen.location))) ?? '')
      const found = await duckdb.runAndReadAll(`FROM read_parquet(${quoteLiteral(local)}) LIMIT 1`)
      const deleted = isVector
        ? await storeVector(metadata, chosen.location, [0])
        : await copy(
            metadata,
            `SELECT ${quoteLiteral(chosen.location)} AS file_path, 0::BIGINT AS pos`,
            POSITION_FIELDS,
          )
      const file: NewDeleteFile = {
        ...deleted,
        content: 'position-deletes',
        specId: metadata['default-spec-id'],
      }
      const plan = await planCommit({
        metadata,
        isStaged: false,
        operation: 'append',
        files: [],
        deletes: [file],
        at: Date.now(),
        uuid: crypto.randomUUID(),
        reader,
      })
      for (const { location, bytes } of plan.objects) await put(location, bytes)
      const { status, text } = await commit(branch, name, plan)
      if (status !== 200) throw new Error(`deleting rows of ${name}: ${text}`)
      return found.getRowObjectsJS().map((row) => Number(row.a))
    },

    async close() {
      duckdb.closeSync()
      instance.closeSync()
      await rm(directory, { recursive: true })
    },
  }
}

export type ForeignEngine = Awaited<ReturnType<typeof openForeignEngine>>
