// Uploads in the database. An intent names the future path of an object; the row makes the object a file of the zone.
import assert from 'node:assert/strict'
import type { Sql, SqlTx } from '../../../drizzle/client.ts'
import { clientTrace } from '../../../ground/telemetry/trace.ts'
import { limits } from '../../core/limits.ts'
import { noZone, type ZoneRef } from '../../core/zone-ref.ts'
import { zoneSource } from '../../triggers/config.ts'
import type { FileRow } from './files.ts'

/** The effect that cleans up after a killed upload; its payload is an `AbandonedUpload`. */
const ABANDONED_UPLOAD = 'abandonedUpload'

/** Longer than any upload takes. */
const ABANDONED_AFTER_MS = 2 * limits.uploadMs

export interface AbandonedUpload {
  namespace: string
  name: string
  filename: string
  path: string
}

interface Intended {
  zoneId: string
  /** Null: the name is taken. */
  intentId: string | null
  /** Names of files with this original name, from `from` on. */
  occupiedPaths: string[]
}

/**
 * Records that an object will be put at a path, unless the zone has a file of that name. The commit does not wait for the disk.
 * A power cut may lose the intents of the last half second, but no file. Throws 404 if the zone does not exist.
 */
export async function intend(
  sql: Sql,
  { namespace, name, boundTo }: ZoneRef,
  { path, filename, original, from }: { path: string; filename: string; original: string; from: string },
): Promise<Intended> {
  const payload: AbandonedUpload = { namespace, name, filename, path }
  const [row] = await sql<{ zoneId: string | null; intentId: string | null; occupiedPaths: string[] }[]>`
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
    select (select id from zone) as "zoneId", (select id from intent) as "intentId", (select names from taken) as "occupiedPaths"`
  assert(row)
  if (row.zoneId === null) throw noZone({ namespace, name })
  return { ...row, zoneId: row.zoneId }
}

export const forgetIntent = (sql: Sql, intentId: string) => sql`delete from outbox where id = ${intentId}`

export type NewFile = Omit<FileRow, 'seq' | 'uploadedAt' | 'archivedByRun' | 'archivedAt' | 'quarantinedAt'>

export type Recorded =
  /** `hasEvent`: a trigger listens for the file, so an event was recorded with it. */
  | { kind: 'recorded'; uploadedAt: Date; hasEvent: boolean }
  /** Another upload has recorded a file of that name. */
  | { kind: 'taken' }
  /** The zone no longer exists. */
  | { kind: 'gone' }
  /** Cleanup of the intent has begun. The object counts as abandoned and may be gone. */
  | { kind: 'late' }

/**
 * One statement, so one transaction: inserts the row, records an event if a trigger listens, and deletes the intent. Cleanup
 * first increments the intent's `tries`; recording requires `tries = 0`. So an upload is either recorded or cleaned up, never
 * both. An intent without a recorded file stays, so that cleanup finds the object at its path.
 */
export async function recordFile(
  on: Sql | SqlTx,
  ref: ZoneRef,
  intentId: string,
  file: NewFile,
): Promise<Recorded> {
  const source = zoneSource(ref)
  const { traceparent, tracestate } = clientTrace()
  const [row] = await on<
    { isThere: boolean; isIntended: boolean; uploadedAt: Date | null; hasEvent: boolean }[]
  >`
    with zone as (select id from landing_zone where id = ${file.zoneId} for key share),
    intent as (
      select id from outbox where id = ${intentId} and tries = 0 for update),
    file as (
      insert into landing_file (id, zone_id, filename, original_name, path, version_id, size_bytes, content_type)
      select ${file.id}, zone.id, ${file.filename}, ${file.originalName}, ${file.path}, ${file.versionId}, ${file.sizeBytes},
        ${file.contentType}
      from zone, intent
      on conflict do nothing
      returning id, original_name, uploaded_at),
    event as (
      insert into trigger_event (kind, source, subject, filename, traceparent, tracestate)
      select 'fileUploaded', ${source}, file.id, file.original_name, ${traceparent}, ${tracestate} from file
      where exists (select 1 from trigger t where t.source = ${source} and t.state <> 'disabled')
      returning id),
    done as (delete from outbox where id = ${intentId} and exists (select from file))
    select exists (select from zone) as "isThere", exists (select from intent) as "isIntended",
      (select uploaded_at from file) as "uploadedAt", exists (select from event) as "hasEvent"`
  assert(row)
  if (!row.isThere) return { kind: 'gone' }
  if (!row.isIntended) return { kind: 'late' }
  if (row.uploadedAt === null) return { kind: 'taken' }
  return { kind: 'recorded', uploadedAt: row.uploadedAt, hasEvent: row.hasEvent }
}

/**
 * Returns the object versions at an abandoned upload's path that the zone lists as files. Returns null while another upload to
 * this path runs. The clean-up is then queued again, for a time when that upload must have ended.
 */
export async function recordedVersions(sql: Sql, abandoned: AbandonedUpload): Promise<string[] | null> {
  const { namespace, name, filename, path } = abandoned
  const [row] = await sql<{ isIntended: boolean; versionIds: string[] }[]>`
    with intended as (
      -- A literal kind, because only this kind is in the partial index "outbox_intended".
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
  assert(row)
  return row.isIntended ? null : row.versionIds
}
