// Archived landing files: those of zones with `auto_purge` go when they are old enough, and those whose objects are still
// where they were uploaded are queued to be moved (archive.ts), should the effect of their run have been lost.
import { inBatches, type Reaping } from '../retention/reaping.ts'
import { ARCHIVED_INPUTS, isBeingRead, isInPlace } from './archived-files.ts'

const FILES_PER_BATCH = 500
const REMOVALS_AT_ONCE = 8
const RUNS_QUEUED = 1_000

/** The object first: a file that still has its record is found again, an object without one is not. */
export async function purgeArchivedFiles(reaping: Reaping): Promise<void> {
  const { sql, objects, now, reaped } = reaping
  let after = { archivedAt: new Date(0), id: '00000000-0000-0000-0000-000000000000' }
  for (;;) {
    const files = await sql<{ id: string; path: string; versionId: string; archivedAt: Date }[]>`
      select f.id, f.path, f.version_id as "versionId", f.archived_at as "archivedAt"
      from landing_file f join landing_zone z on z.id = f.zone_id
      where z.auto_purge and f.archived_by_run is not null
        and f.archived_at < ${now}::timestamptz - z.processed_max_age_days * interval '1 day'
        and (f.archived_at, f.id) > (${after.archivedAt}, ${after.id})
        and not ${isBeingRead(sql)}
        and not exists (select from run r where r.status in ('pending', 'running') and r.landing_file_id = f.id)
      order by f.archived_at, f.id limit ${FILES_PER_BATCH}`
    for (let from = 0; from < files.length; from += REMOVALS_AT_ONCE) {
      reaping.checkRunning()
      const some = files.slice(from, from + REMOVALS_AT_ONCE)
      await Promise.all(some.map(({ path, versionId }) => objects.removeVersion(path, versionId)))
    }
    await inBatches(reaping, async (tx) => {
      // One that was moved meanwhile has another path, and goes with the next tick.
      const { count } = await tx`
        delete from landing_file f using unnest(${files.map(({ id }) => id)}::uuid[],
          ${files.map(({ path }) => path)}::text[]) as gone(id, path)
        where f.id = gone.id and f.path = gone.path`
      reaped.lzFilesCleaned += count
      return false
    })
    const last = files.at(-1)
    if (files.length < FILES_PER_BATCH || last === undefined) return
    after = last
  }
}

export async function queueArchiving(reaping: Reaping): Promise<void> {
  await inBatches(reaping, async (tx) => {
    const { count } = await tx`
      insert into outbox (kind, payload, due_at)
      select ${ARCHIVED_INPUTS}, jsonb_build_object('runId', archived.run), clock_timestamp()
      from (select distinct f.archived_by_run as run from landing_file f where ${isInPlace(tx)}) archived
      where not exists (
        select from outbox o where o.kind = ${ARCHIVED_INPUTS} and o.payload ->> 'runId' = archived.run::text)
      limit ${RUNS_QUEUED}`
    return count === RUNS_QUEUED
  })
}
