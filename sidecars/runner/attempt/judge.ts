import assert from 'node:assert'
import { type TableName, tableKey } from '../../../ground/names.ts'
import type { DeleteFile } from '../../../lake/iceberg/read/deletes.ts'
import type { LocalFile } from '../../../lake/iceberg/read/table-sql.ts'
import type { NewDeleteFile } from '../../../lake/iceberg/write/new-files.ts'
import { addedFiles, removedFiles, storedParts } from '../../../lake/iceberg/write/result-write.ts'
import { since } from '../../core/amounts.ts'
import { openInstance, type TableInput } from '../session/lake-session.ts'
import type { OpenedInstance } from '../session/shared-instance.ts'
import { runTests, type TestResult, tally } from '../write/quality-gate.ts'
import type { StoredResult } from '../write/table-write.ts'
import { parsedIn, type RenderedAttempt } from './render.ts'

/**
 * Runs the quality tests on the table as the branch will have it. `opened` is the instance of the pipeline's SQL. It drops the
 * result before it shows the tests their tables. Null: the tests get an instance of their own.
 */
export async function judge(
  attempt: RenderedAttempt,
  stored: StoredResult | null,
  opened: OpenedInstance | null,
): Promise<TestResult[]> {
  const { context, resources, tests, inputs, target } = attempt
  const { log, signal } = context
  const { engine, directory } = resources
  if (tests.length === 0) return []
  if (stored !== null) {
    const paths = opened === null ? await stored.placed : addedFiles(stored.change).map(({ path }) => path)
    inputs.setTable(onBranch(target.name, stored, inputs.table(target.name), paths))
  }
  if (inputs.table(target.name) === null) return []
  context.enter('testing')
  const started = performance.now()
  const shown = inputs.found()
  // An instance executes one call after the other, so the first test need not wait for this answer.
  const ready =
    opened && engine.call({ kind: 'show', number: opened.number, tables: shown.map(opened.viewOf) }, signal)
  ready?.catch(() => {})
  const instance = opened?.number ?? (await openInstance(engine, shown, directory, signal))
  const bench = {
    ...parsedIn(attempt, instance),
    inputs,
    own: target.name,
    write: log.write.bind(log),
    spark: resources.spark,
  }
  const results = await runTests(tests, bench)
  await ready
  log.write('info', `${tally(results)} in ${since(started)}`)
  return results
}

/** The table as the branch will have it. `paths` are the local paths of the new files. */
function onBranch(
  name: TableName,
  { change, files: added }: StoredResult,
  cachedTable: TableInput | null,
  paths: readonly string[],
): TableInput {
  const { operation, schema } = change
  const removed = removedFiles(change).map(({ file }) => file)
  const before = operation === 'overwrite' ? null : cachedTable
  const removedLocations = new Set(removed.map((file) => file.location))
  const fileAt = (i: number) => {
    const file = before?.files[i]
    assert(file !== undefined, `no local file for data file ${i} of ${tableKey(name)}`)
    return file
  }
  const retained = (before?.locations ?? []).flatMap((location, i) =>
    removedLocations.has(location) ? [] : [{ location, file: fileAt(i) }],
  )
  const rows = (files: readonly { recordCount: number }[]) =>
    files.reduce((sum, file) => sum + file.recordCount, 0)
  const parts = storedParts(change, added)
  const data = [...parts.files, ...parts.compacted]
  return {
    name,
    schema: schema.schema,
    files: [
      ...withDeletes(retained, parts.deletes, paths.slice(data.length)),
      ...paths.slice(0, data.length).map((path) => ({ path })),
    ],
    locations: [...retained, ...data].map(({ location }) => location),
    rowCount:
      (before?.rowCount ?? 0) -
      rows(removed) +
      rows(data) -
      change.deletedRows -
      change.compacted.deletedRows,
  }
}

/** The files, with new position deletes that may name rows of each of them. */
function withDeletes(
  retained: readonly { location: string; file: LocalFile }[],
  added: readonly NewDeleteFile[],
  paths: readonly string[],
): LocalFile[] {
  if (added.length === 0) return retained.map(({ file }) => file)
  const files = added.map(({ location, sizeBytes, recordCount }): DeleteFile => {
    const sequenceNumber = Number.MAX_SAFE_INTEGER
    return { id: location, location, sizeBytes, recordCount, sequenceNumber, scope: null, columns: null }
  })
  const none = { sequenceNumber: 0, scope: '', files: [], paths: [] }
  return retained.map(({ location, file: { path, deletes = { ...none, location } } }) => ({
    path,
    deletes: { ...deletes, files: [...deletes.files, ...files], paths: [...deletes.paths, ...paths] },
  }))
}
