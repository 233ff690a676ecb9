// Gives a table of main an earlier content. See ADR 41.
import { randomUUID } from 'node:crypto'
import type { Db, Tx } from '../../drizzle/client.ts'
import { type TableName, tableKey } from '../../ground/names.ts'
import { keyIn } from '../../lake/iceberg/format/location.ts'
import { currentSchema } from '../../lake/iceberg/format/metadata.ts'
import { columnsOf } from '../../lake/iceberg/format/types.ts'
import type { ManifestReader } from '../../lake/iceberg/read/scan.ts'
import { planRestore } from '../../lake/iceberg/write/restore.ts'
import type { Clock } from '../core/clock.ts'
import { AppError, failedPrecondition, forbidden, notFound } from '../core/errors.ts'
import type { NewId } from '../core/ids.ts'
import type { ObjectStore } from '../objects/port.ts'
import { MetadataFile, type MetadataFiles } from './metadata-files.ts'
import { commitContent, contentAt, type LakeContent, oldestCommitOf } from './store/restores.ts'

/** Preparations of one restore. A run may change the table between a preparation and its commit. */
const ATTEMPTS = 5

export interface RestoreDeps {
  db: Db
  objects: ObjectStore
  files: MetadataFiles
  reader: ManifestReader
  clock: Clock
  newId: NewId
}

interface RestoreRequest {
  table: TableName
  /** The commit of main whose content the table gets. */
  commit: number
  author: string | null
  /** The author as a person who decides; null: callers cannot be told apart. */
  person: string | null
}

export type Restores = ReturnType<typeof makeRestores>

export function makeRestores({ db, objects, files, reader, clock, newId }: RestoreDeps) {
  async function existing(table: TableName, commit: number | null) {
    const content = await contentAt(db, table, commit)
    if (content !== null) return content
    if (commit === null) throw notFound(`table ${tableKey(table)}`)
    const oldest = await oldestCommitOf(db, table)
    throw new AppError(
      404,
      'NOT_FOUND',
      `table ${tableKey(table)} not found at commit ${commit}: its oldest kept commit is ${oldest}`,
    )
  }

  /** Writes the objects of the commit. They stay unreferenced when the commit does not happen. */
  async function prepare({ table, commit }: RestoreRequest) {
    const [live, earlier] = await Promise.all([existing(table, null), existing(table, commit)])
    if (live.id === earlier.id) return { live, earlier, content: null }
    return { live, earlier, content: await contentOf(live, earlier, commit) }
  }

  async function contentOf(live: LakeContent, earlier: LakeContent, commit: number) {
    const id = newId()
    const stored = {
      id,
      kind: earlier.kind,
      tableUuid: earlier.tableUuid,
      columns: earlier.columns,
      rowCount: earlier.rowCount,
      sizeBytes: earlier.sizeBytes,
      operation: 'restore',
    }
    // A table that was created again does not share field ids with its predecessor. A view has no files to combine.
    if (live.tableUuid !== earlier.tableUuid || earlier.kind === 'view') {
      const { metadataLocation, snapshotId } = earlier
      return {
        ...stored,
        metadataLocation,
        snapshotId,
        rowsAdded: earlier.rowCount,
        rowsRemoved: live.rowCount,
      }
    }
    const plan = await planRestore({
      metadata: (await files.read(live.metadataLocation)).table,
      earlier: (await files.read(earlier.metadataLocation)).table,
      at: clock.now().getTime(),
      uuid: randomUUID(),
      reader,
      summary: { 'sluice.restored-commit': String(commit) },
      previousFile: live.metadataLocation,
    })
    await objects.put(keyIn(plan.manifestList.location), plan.manifestList.bytes)
    const { metadata: next, rowsAdded, rowsRemoved } = plan
    return {
      ...stored,
      metadataLocation: await files.write(next.location, live.metadataLocation, MetadataFile.of(next)),
      snapshotId: String(next['current-snapshot-id']),
      columns: columnsOf(currentSchema(next)),
      rowsAdded,
      rowsRemoved,
    }
  }

  /**
   * Restores the table in one transaction with `also`. A table that has the content already gets no commit: its latest one is
   * returned.
   */
  async function restore<Result>(
    request: RestoreRequest,
    also: (tx: Tx) => Promise<Result>,
  ): Promise<{ commit: number; result: Result }> {
    const { table, commit, author, person } = request
    for (let attempt = 1; attempt <= ATTEMPTS; attempt += 1) {
      const { live, earlier, content } = await prepare(request)
      const done = await db
        .transaction(async (tx) => {
          // The caller's rows are locked before main, as in every transaction that changes both.
          const result = await also(tx)
          const outcome = await commitContent(tx, {
            id: newId(),
            table,
            content,
            replaced: live.id,
            source: earlier.id,
            message: `restore ${tableKey(table)} to commit ${commit}`,
            author,
            decision: { authors: person === null ? [] : [person], by: person },
          })
          switch (outcome.kind) {
            case 'committed':
              return { commit: outcome.commit, result }
            case 'outdated':
              throw new Outdated()
            case 'protected':
              throw forbidden(
                `table ${tableKey(table)} of main is protected by review: four-eyes: write the state to a branch, and let another user merge the branch`,
              )
          }
        })
        .catch((error: unknown) => {
          if (error instanceof Outdated) return null
          throw error
        })
      if (done !== null) return done
    }
    throw failedPrecondition(
      `table ${tableKey(table)} changed during each of ${ATTEMPTS} tries to restore it: try again`,
    )
  }

  return { restore }
}

/** The table or the earlier state changed after the preparation. Thrown to roll the transaction back. */
class Outdated extends Error {}
