// What an upload leaves behind when its process is killed between the object and its row.
import type { Sql } from '../../drizzle/client.ts'
import type { ObjectStore } from '../objects/port.ts'
import { ABANDONED_AFTER_MS, ABANDONED_UPLOAD, type AbandonedUpload } from './arrivals.ts'

/**
 * The effect `abandonedUpload`: removes the versions at the path that no file of the zone has. Any number of times. Whoever
 * puts an object there has an intent before, until it is a file: another upload that is under way at the path keeps all of
 * it, and this is looked at again when that one must be over.
 */
export const makeClearUp =
  ({ sql, objects }: { sql: Sql; objects: ObjectStore }) =>
  async (abandoned: AbandonedUpload): Promise<void> => {
    const { namespace, name, filename, path } = abandoned
    const { versions } = await objects.versions(path)
    const there = versions.filter(({ key }) => key === path)
    if (there.length === 0) return
    // One look at both, after the versions were listed: what is there by then is a file, intended, or abandoned.
    const [known] = await sql<{ isIntended: boolean; versionIds: string[] }[]>`
      with intended as (
        -- As "outbox_intended" has it: a plan for any kind could not use that.
        select from outbox where kind = 'abandonedUpload' and tries = 0 and payload ->> 'path' = ${path} limit 1),
      again as (
        insert into outbox (kind, payload, due_at, tries)
        select ${ABANDONED_UPLOAD}, ${sql.json({ ...abandoned })},
          clock_timestamp() + ${ABANDONED_AFTER_MS} * interval '1 millisecond', 1
        from intended)
      select exists (select from intended) as "isIntended",
        array(
          select f.version_id from landing_file f join landing_zone z on z.id = f.zone_id
          where z.namespace = ${namespace} and z.name = ${name} and f.filename = ${filename} and f.path = ${path}) as "versionIds"`
    if (known === undefined || known.isIntended) return
    for (const { versionId } of there)
      if (!known.versionIds.includes(versionId)) await objects.deleteVersion(path, versionId)
  }
