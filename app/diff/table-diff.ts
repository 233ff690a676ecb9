// The numbers of a changed table: from the record counts of files where these suffice, otherwise from the query service.
import { LRUCache } from 'lru-cache'
import { currentSchema, type TableMetadata } from '../../lake/iceberg/format/metadata.ts'
import type { Schema } from '../../lake/iceberg/format/types.ts'
import { changedFiles } from '../../lake/iceberg/read/changed-files.ts'
import { comparedColumns, keepsRows, schemaChange } from '../../lake/iceberg/read/compare.ts'
import type { ManifestReader } from '../../lake/iceberg/read/scan.ts'
import { parseViewMetadata, viewSchema } from '../../lake/iceberg/views/view.ts'
import type { Clock } from '../core/clock.ts'
import type { Layer } from '../core/names.ts'
import { Incomparable } from '../query/compare.ts'
import type { QueryService } from '../query/service.ts'
import type { MetadataFiles } from '../versions/metadata-files.ts'
import type { TableDiff } from './schema.ts'
import type { ChangedTable } from './store.ts'

/** Time of the query service for the rows of one table, and for all tables of one diff. Later tables have no numbers. */
const TABLE_MS = 5_000
const DIFF_MS = 20_000
/** Less remaining time than this is not worth a comparison. */
const USEFUL_MS = 100
/** Tables of one diff that are compared at the same time. */
const TABLES_AT_ONCE = 4
/** Numbers of pairs of states. States never change. */
const CACHED_PAIRS = 2_000

type Numbers = Pick<TableDiff, 'rows_added' | 'rows_removed' | 'schema'>

interface TableDiffDeps {
  files: MetadataFiles
  reader: ManifestReader
  queries: QueryService
  clock: Clock
}

/** A view has columns, and neither rows nor table metadata. */
interface State {
  metadata: TableMetadata | null
  schema: Schema | null
}

export type TableDiffs = ReturnType<typeof makeTableDiffs>

export function makeTableDiffs({ files, reader, queries, clock }: TableDiffDeps) {
  const cached = new LRUCache<string, Numbers>({ max: CACHED_PAIRS })

  async function stateAt(location: string | null, kind: ChangedTable['afterKind']): Promise<State> {
    if (location === null) return { metadata: null, schema: null }
    const file = await files.read(location)
    if (kind === 'view') return { metadata: null, schema: viewSchema(parseViewMetadata(file.text)) }
    const metadata = file.table
    return { metadata, schema: currentSchema(metadata) }
  }

  async function numbersOf(table: ChangedTable, timeoutMs: number, signal: AbortSignal): Promise<Numbers> {
    const key = `${table.beforeId} ${table.afterId}`
    const known = cached.get(key)
    if (known !== undefined) return known
    const [{ metadata: before, schema: old }, { metadata: after, schema: now }] = await Promise.all([
      stateAt(table.beforeLocation, table.beforeKind),
      stateAt(table.afterLocation, table.afterKind),
    ])
    const isSameTable = before === null || after === null || before['table-uuid'] === after['table-uuid']
    const schema = schemaChange(old, now, isSameTable)
    const { added, removed, hasRowDeletes } = await changedFiles(before, after, reader)
    const isOneSided = added.length === 0 || removed.length === 0
    const isWhole = before === null || after === null || keepsRows(comparedColumns(old, now, isSameTable))
    const rows =
      isOneSided && isWhole && !hasRowDeletes
        ? { rows_added: rowsOf(added), rows_removed: rowsOf(removed) }
        : await countRows(table, timeoutMs, signal)
    if (rows === null) return { rows_added: null, rows_removed: null, schema }
    cached.set(key, { ...rows, schema })
    return { ...rows, schema }
  }

  async function countRows(
    { beforeKind, beforeLocation, afterKind, afterLocation }: ChangedTable,
    timeoutMs: number,
    signal: AbortSignal,
  ) {
    if (timeoutMs < USEFUL_MS) return null
    const before = beforeKind === 'view' ? null : beforeLocation
    const after = afterKind === 'view' ? null : afterLocation
    const pair = { before, after, key: [], rowsLimit: 0, timeoutMs }
    try {
      const { counts } = await queries.compare(pair, signal)
      const text = (counts?.chunks ?? []).map((chunk) => new TextDecoder().decode(chunk)).join('')
      const row: Record<'rows_added' | 'rows_removed', number | string> = JSON.parse(text)
      return { rows_added: Number(row.rows_added), rows_removed: Number(row.rows_removed) }
    } catch (error) {
      if (error instanceof Incomparable) return null
      throw error
    }
  }

  async function tableDiff(table: ChangedTable, timeoutMs: number, signal: AbortSignal): Promise<TableDiff> {
    return { ...sizesOf(table), ...(await numbersOf(table, timeoutMs, signal)) }
  }

  return {
    /** The diffs of tables, in their order. */
    async of(tables: readonly ChangedTable[], signal: AbortSignal): Promise<TableDiff[]> {
      const end = clock.now().getTime() + DIFF_MS
      const diffs: TableDiff[] = []
      for (let from = 0; from < tables.length; from += TABLES_AT_ONCE) {
        const timeoutMs = Math.min(TABLE_MS, end - clock.now().getTime())
        const batch = tables.slice(from, from + TABLES_AT_ONCE)
        diffs.push(...(await Promise.all(batch.map((table) => tableDiff(table, timeoutMs, signal)))))
      }
      return diffs
    },
  }
}

const rowsOf = (files: readonly { recordCount: number }[]) =>
  files.reduce((sum, { recordCount }) => sum + recordCount, 0)

/** The fields that Postgres knows. */
const sizesOf = (table: ChangedTable) => ({
  namespace: table.namespace,
  layer: table.layer as Layer,
  name: table.name,
  change: changeOf(table),
  rows_before: table.beforeRows ?? 0,
  rows_after: table.afterRows ?? 0,
  conflict: table.isConflict,
})

function changeOf({ beforeId, afterId }: ChangedTable): TableDiff['change'] {
  if (beforeId === null) return 'added'
  return afterId === null ? 'removed' : 'changed'
}
