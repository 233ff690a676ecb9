// Reads of landing files by runs: the files that the latest attempt of each run has frozen.
import { alias } from 'drizzle-orm/pg-core'
import type { Sql } from '../../../drizzle/client.ts'
import { computed, nullable, only, pick, type RowOf, select } from '../../../drizzle/rows.ts'
import { landingFiles } from '../../../drizzle/schema/landing.ts'
import { runAttempts, runFiles, runs } from '../../../drizzle/schema/run.ts'
import { andVisibleId, type VisibleIds } from '../../../drizzle/visibility.ts'
import type { Page } from '../../core/pagination.ts'

const file = alias(landingFiles, 'file')
const READ = {
  fileId: alias(runFiles, 'page').landingFileId,
  filename: nullable(file.filename),
  sizeBytes: nullable(file.sizeBytes),
  /** Null: the file is active or deleted, or its run is gone or not visible. */
  archivedByRun: computed<string | null>('archiver.id'),
  archivedAt: nullable(file.archivedAt),
  quarantinedAt: nullable(file.quarantinedAt),
  ...pick(alias(runs, 'run'), 'namespace', 'layer', 'pipeline', 'status'),
  ...pick(alias(runAttempts, 'attempt'), 'runId', 'openedAt'),
}
export type ReadRow = RowOf<typeof READ>

interface ReadFilter {
  zoneId: string
  /** Undefined: all files of the zone. */
  fileId: string | undefined
  /** Ids of the pipelines that the caller may see. */
  visible: VisibleIds
}

/** Newest runs first, within a run the newest files first. The total stops at `countMax`. */
export async function readsOfZone(
  sql: Sql,
  { zoneId, fileId, visible }: ReadFilter,
  { limit, offset }: Page,
  countMax: number,
): Promise<{ items: ReadRow[]; total: number }> {
  const matching = sql`
    run_file read join run on run.id = read.run_id and run.attempt = read.attempt
    where read.zone_id = ${zoneId} ${fileId === undefined ? sql`` : sql`and read.landing_file_id = ${fileId}`}
      ${andVisibleId(sql, sql`run.pipeline_id`, visible)}`
  const [items, counted] = await Promise.all([
    select(
      sql,
      READ,
      sql`
        with page as materialized (
          select read.run_id, read.attempt, read.landing_file_id from ${matching}
          order by read.run_id desc, read.landing_file_id desc limit ${limit} offset ${offset})`,
    )`
      from page
      join run on run.id = page.run_id
      join run_attempt attempt on attempt.run_id = page.run_id and attempt.attempt = page.attempt
      left join landing_file file on file.id = page.landing_file_id
      left join run archiver on archiver.id = file.archived_by_run
        ${andVisibleId(sql, sql`archiver.pipeline_id`, visible)}
      order by page.run_id desc, page.landing_file_id desc`,
    select(sql, { total: computed<number>('count(*)::int') })`
      from (select from ${matching} order by read.run_id desc limit ${countMax}) counted`,
  ])
  return { items, total: only(counted).total }
}
