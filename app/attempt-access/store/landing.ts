import { alias } from 'drizzle-orm/pg-core'
import type { Sql } from '../../../drizzle/client.ts'
import { computed, pick, type RowOf, select } from '../../../drizzle/rows.ts'
import { landingFiles, landingZones } from '../../../drizzle/schema/landing.ts'
import { andVisibleId } from '../../../drizzle/visibility.ts'
import type { Resource, Visible } from '../../core/access.ts'
import { limits } from '../../core/limits.ts'
import type { ObjectStore } from '../../objects/port.ts'
import { zoneFolderOf } from '../../wire/paths.ts'

type Attempt = { runId: string; attempt: number }
type Zone = { namespace: string; name: string }
const FILE = pick(alias(landingFiles, 'file'), 'id', 'filename', 'path', 'versionId', 'sizeBytes')
export type FrozenFile = RowOf<typeof FILE>

/** Returns null when the zone does not exist or is not visible. */
async function findZone(
  sql: Sql,
  { namespace, name }: Zone,
  visibleZones: Visible['zones'],
): Promise<Resource | null> {
  const [found] = await select(sql, pick(landingZones, 'id', 'namespace', 'owner'))`
    from landing_zone where namespace = ${namespace} and name = ${name} ${andVisibleId(sql, sql`id`, visibleZones)}`
  return found === undefined ? null : { type: 'landing_zone', ...found }
}

/**
 * The landing files of a zone that an attempt reads. Zones that the sources name literally were frozen at the attempt's start.
 * Any other zone is frozen now, with its unarchived files up to the attempt's watermark. If the attempt may not archive these
 * files, `may_archive` is set to false, and a success leaves them active. Returns null when the zone does not exist or is not
 * visible.
 */
export async function frozenFiles(
  sql: Sql,
  attempt: Attempt,
  zone: Zone,
  { visible, mayArchive }: { visible: Visible['zones']; mayArchive(found: Resource): Promise<boolean> },
): Promise<FrozenFile[] | null> {
  const { runId, attempt: number } = attempt
  const found = await findZone(sql, zone, visible)
  if (found === null) return null
  // A plugin may answer this check, so it runs before the transaction begins.
  const isKept = !(await mayArchive(found))
  return sql.begin(async (tx) => {
    // The lock lets one call freeze the zone; concurrent calls then read the same frozen files.
    const [, , , files] = await Promise.all([
      tx`select from run_attempt where run_id = ${runId} and attempt = ${number} for update`,
      tx`
        insert into run_file (run_id, attempt, landing_file_id, zone_id)
        select attempt.run_id, attempt.attempt, file.id, file.zone_id
        from run_attempt attempt
        join landing_file file on file.zone_id = ${found.id} and file.seq <= attempt.landing_watermark
        where attempt.run_id = ${runId} and attempt.attempt = ${number} and attempt.state = 'open'
          and file.archived_by_run is null and file.quarantined_at is null
          and not exists (
            select from run_file frozen
            where frozen.run_id = attempt.run_id and frozen.attempt = attempt.attempt
              and frozen.zone_id = ${found.id})`,
      isKept &&
        tx`
          update run_file set may_archive = false
          where run_id = ${runId} and attempt = ${number} and zone_id = ${found.id} and may_archive`,
      select(tx, FILE)`
        from run_file frozen join landing_file file on file.id = frozen.landing_file_id
        where frozen.run_id = ${runId} and frozen.attempt = ${number} and frozen.zone_id = ${found.id}
        order by file.seq`,
    ])
    return files
  })
}

export type LandingDeps = { sql: Sql; objects: ObjectStore }

/**
 * The files of a zone that a preview reads. These are its active files, or its samples when it has no active files. Returns
 * null when the zone does not exist or is not visible.
 */
export async function presentFiles(
  { sql, objects }: LandingDeps,
  zone: Zone,
  visibleZones: Visible['zones'],
): Promise<FrozenFile[] | null> {
  const found = await findZone(sql, zone, visibleZones)
  if (found === null) return null
  const files = await select(sql, FILE)`
    from landing_file file where zone_id = ${found.id} and archived_by_run is null and quarantined_at is null
    order by seq limit ${limits.landingFilesPerAttempt}`
  if (files.length > 0) return files
  const folder = `${zone.namespace}/landing/${zone.name}/_samples/`
  const { objects: samples } = await objects.list(folder, { limit: limits.listCap })
  return samples.map(({ key, versionId, size }, index) => ({
    // Samples have no rows.
    id: `sample-${index}`,
    filename: key.slice(folder.length),
    path: key,
    versionId,
    sizeBytes: size,
  }))
}

/**
 * Whether a key is a landing file that was frozen for the attempt. The attempt may use the original path even after another run
 * archived the file.
 */
export async function isFrozenInput(
  sql: Sql,
  { runId, attempt }: Attempt,
  key: string,
  visibleZones: Visible['zones'],
): Promise<boolean> {
  const folder = zoneFolderOf(key)
  if (folder === null) return false
  // A file keeps its name when it moves within its zone. Each step uses an index, whatever the number of files.
  const filename = key.slice(key.lastIndexOf('/') + 1)
  const found = await sql`
    select from landing_zone zone
    join landing_file file on file.zone_id = zone.id and file.filename = ${filename}
    join run_file frozen on frozen.landing_file_id = file.id
    where zone.namespace = ${folder.namespace} and zone.name = ${folder.name}
      and frozen.run_id = ${runId} and frozen.attempt = ${attempt}
      and ${key} in (file.path, zone.namespace || '/landing/' || zone.name || '/' || file.filename)
      ${andVisibleId(sql, sql`zone.id`, visibleZones)}
    limit 1`
  return found.length > 0
}

/** The version of a pipeline file that the run's request pinned; null when the path is not pinned. */
export async function pinnedVersion(sql: Sql, runId: string, path: string): Promise<string | null> {
  const version = computed<string | null>(sql`pins ->> ${path}`)
  const [run] = await select(sql, { version })`from run where id = ${runId}`
  return run?.version ?? null
}

/** Whether a key is in the folder of a visible zone. */
export async function isInVisibleZone(sql: Sql, key: string, visible: Visible['zones']): Promise<boolean> {
  if (visible === 'all') return true
  const folder = zoneFolderOf(key)
  return folder !== null && (await findZone(sql, folder, visible)) !== null
}
