// The two statements of an upload: one writes down where an object is going to be, one makes it a file of the zone.
import type { Sql, SqlTx } from '../../drizzle/client.ts'
import { limits } from '../core/limits.ts'
import { noZone, type ZoneRef } from '../core/zone-ref.ts'
import { announced } from './announcements.ts'

/** The effect that clears up after an upload that was killed; its payload is an `AbandonedUpload`. */
export const ABANDONED_UPLOAD = 'abandonedUpload'

/** Longer than any upload takes. */
export const ABANDONED_AFTER_MS = 2 * limits.uploadMs

export interface AbandonedUpload {
  namespace: string
  name: string
  filename: string
  path: string
}

export interface Intended {
  zoneId: string
  /** Null: the name is taken. */
  intentId: string | null
  /** Names that files of this original name have, from the one on that was asked for. */
  taken: string[]
}

/**
 * Writes down that an object is going to be put at a path, unless the zone has a file of that name. It does not wait for
 * the disk: losing a power cut's last half second of intents is losing no file. 404: no such zone.
 */
export async function intend(
  sql: Sql,
  { namespace, name, boundTo }: ZoneRef,
  { path, filename, original, from }: { path: string; filename: string; original: string; from: string },
): Promise<Intended> {
  const payload: AbandonedUpload = { namespace, name, filename, path }
  const [row] = await sql<{ zoneId: string | null; intentId: string | null; taken: string[] }[]>`
    with set as (select set_config('synchronous_commit', 'off', true)),
    zone as (
      select z.id from landing_zone z, set where z.namespace = ${namespace} and z.name = ${name}
        ${boundTo === undefined ? sql`` : sql`and z.id = ${boundTo}`}),
    taken as (
      select coalesce(array_agg(f.filename), '{}') as names from landing_file f, zone
      where f.zone_id = zone.id and f.original_name = ${original} and f.filename >= ${from}),
    intent as (
      insert into outbox (kind, payload, due_at)
      select ${ABANDONED_UPLOAD}, ${sql.json({ ...payload })},
        clock_timestamp() + ${ABANDONED_AFTER_MS} * interval '1 millisecond'
      from zone, taken where not ${filename} = any (taken.names)
      returning id)
    select (select id from zone) as "zoneId", (select id from intent) as "intentId", (select names from taken) as taken`
  if (row === undefined || row.zoneId === null) throw noZone({ namespace, name })
  return { ...row, zoneId: row.zoneId }
}

export const forgetIntent = (sql: Sql, intentId: string) => sql`delete from outbox where id = ${intentId}`

export interface NewFile {
  id: string
  zoneId: string
  filename: string
  original: string
  path: string
  versionId: string
  sizeBytes: number
  contentType: string
}

export type Recorded =
  /** With its event, if some trigger hears it. */
  | { kind: 'recorded'; uploadedAt: Date; eventId: number | null }
  /** The zone has got a file of that name meanwhile. */
  | { kind: 'taken' }
  /** There is no such zone any more. */
  | { kind: 'gone' }
  /** Its intent is being acted on, or has been: the object counts as abandoned and may be gone. */
  | { kind: 'late' }

/**
 * One statement, so one transaction: the row, what triggers hear of it, and the end of the intent. Who clears up claims the
 * intent first, which counts a try: either the file is recorded and its intent never acted on, or the other way round. An
 * intent without its file stays, for whatever is at its path. Asked again with the same file, it answers what was recorded.
 */
export async function record(
  on: Sql | SqlTx,
  ref: ZoneRef,
  intentId: string,
  file: NewFile,
): Promise<Recorded> {
  const [row] = await on<
    { isThere: boolean; isIntended: boolean; uploadedAt: Date | null; eventId: number | null }[]
  >`
    with zone as (select id from landing_zone where id = ${file.zoneId} for key share),
    intent as (
      select id from outbox where id = ${intentId} and tries = 0 for update),
    file as (
      insert into landing_file (id, zone_id, filename, original_name, path, version_id, size_bytes, content_type)
      select ${file.id}, zone.id, ${file.filename}, ${file.original}, ${file.path}, ${file.versionId}, ${file.sizeBytes},
        ${file.contentType}
      from zone, intent
      on conflict do nothing
      returning id, original_name, uploaded_at),
    heard as (${announced(on, ref)}),
    done as (delete from outbox where id = ${intentId} and exists (select from file))
    select exists (select from zone) as "isThere", exists (select from intent) as "isIntended", (select uploaded_at from file) as "uploadedAt",
      (select id::float8 from heard) as "eventId"`
  if (row === undefined || !row.isThere) return { kind: 'gone' }
  if (!row.isIntended) return (await earlier(on, file.id)) ?? { kind: 'late' }
  if (row.uploadedAt === null) return { kind: 'taken' }
  return { kind: 'recorded', uploadedAt: row.uploadedAt, eventId: row.eventId }
}

/** What a try has written whose commit nobody has heard of. A statement of its own: the one before it has waited for that commit. */
async function earlier(on: Sql | SqlTx, id: string): Promise<Recorded | null> {
  const [row] = await on<{ uploadedAt: Date; eventId: number | null }[]>`
    select uploaded_at as "uploadedAt",
      (select e.id::float8 from trigger_event e where e.kind = 'fileUploaded' and e.subject = f.id) as "eventId"
    from landing_file f where id = ${id}`
  return row === undefined ? null : { kind: 'recorded', ...row }
}
