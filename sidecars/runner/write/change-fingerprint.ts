import { createHash } from 'node:crypto'
import { currentSchema, currentSnapshot, type TableMetadata } from '../../../lake/iceberg/format/metadata.ts'
import {
  comparedColumns,
  differingFiles,
  fieldsOfState,
  fingerprintSql,
  schemaChange,
} from '../../../lake/iceberg/read/compare.ts'
import { dataFilesOf } from '../../../lake/iceberg/read/scan.ts'
import { pathsOf, readTable } from '../../../lake/iceberg/read/table-sql.ts'
import { type ViewMetadata, viewSchema, viewSql } from '../../../lake/iceberg/views/view.ts'
import type { EngineLease } from '../engine/engine-lease.ts'
import { type LakeSession, openInstance } from '../session/lake-session.ts'
import { writeEngine } from './table-write.ts'

// The fingerprint of a change: equal for two attempts that change the same columns, and add and remove the same rows. A review
// approves a change, so a later attempt with the same fingerprint needs no other review.

interface FingerprintMeans {
  engine: EngineLease
  /** A directory of the attempt that engines can write to. */
  directory: string
  lake: LakeSession
}

/** The fingerprint of a table's change. Only files that one of the states lacks are read. Throws EngineFault and EngineEnded. */
export async function tableFingerprint(
  before: TableMetadata | null,
  after: TableMetadata,
  { engine, directory, lake }: FingerprintMeans,
  signal: AbortSignal,
): Promise<string> {
  const old = before && currentSchema(before)
  const now = currentSchema(after)
  const isSameTable = before === null || before['table-uuid'] === after['table-uuid']
  const columns = comparedColumns(old, now, isSameTable)
  const [oldFiles, newFiles] = differingFiles(
    await filesOf(before, lake),
    await filesOf(after, lake),
    columns,
  )
  const [removed, added] = await Promise.all([lake.openFiles(oldFiles), lake.openFiles(newFiles)])
  const paths = pathsOf([...removed, ...added])
  const number = await openInstance(engine, [], directory, signal, { paths })
  const sql = fingerprintSql({
    columns,
    before: readTable(fieldsOfState(columns, 'before'), removed),
    after: readTable(fieldsOfState(columns, 'after'), added),
  })
  const [row] = await writeEngine(engine, number, signal).query(sql)
  return digestOf({ columns: schemaChange(old, now, isSameTable), rows: row })
}

/** The fingerprint of a view's change: its columns and its new text. */
export const viewFingerprint = (before: ViewMetadata | null, after: ViewMetadata): string =>
  digestOf({ columns: schemaChange(before && viewSchema(before), viewSchema(after)), text: viewSql(after) })

async function filesOf(metadata: TableMetadata | null, { reader }: LakeSession) {
  const snapshot = metadata && currentSnapshot(metadata)
  return metadata && snapshot ? dataFilesOf(metadata, snapshot['snapshot-id'], reader) : []
}

const digestOf = (change: object) => createHash('sha256').update(JSON.stringify(change)).digest('hex')
