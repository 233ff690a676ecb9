import { sql } from 'drizzle-orm'
import {
  bigint,
  bigserial,
  boolean,
  index,
  integer,
  pgTable,
  text,
  unique,
  uniqueIndex,
  uuid,
} from 'drizzle-orm/pg-core'
import { createdAt, instant, updatedAt } from './columns.ts'

export const landingZones = pgTable(
  'landing_zone',
  {
    id: uuid('id').primaryKey(),
    namespace: text('namespace').notNull(),
    name: text('name').notNull(),
    description: text('description').notNull().default(''),
    owner: text('owner'),
    expectedSchema: text('expected_schema'),
    processedMaxAgeDays: integer('processed_max_age_days').notNull().default(30),
    autoPurge: boolean('auto_purge').notNull().default(false),
    createdAt: createdAt(),
    updatedAt: updatedAt(),
  },
  (t) => [
    unique('landing_zone_name').on(t.namespace, t.name),
    index('landing_zone_owner').on(t.owner).where(sql`owner is not null`),
  ],
)

/** A file of a zone. It is active until a successful run has archived it: `archivedByRun` is that fact, moving the object follows later. */
export const landingFiles = pgTable(
  'landing_file',
  {
    id: uuid('id').primaryKey(),
    zoneId: uuid('zone_id')
      .notNull()
      .references(() => landingZones.id, { onDelete: 'cascade' }),
    seq: bigserial('seq', { mode: 'number' }).notNull(),
    filename: text('filename').notNull(),
    originalName: text('original_name').notNull(),
    path: text('path').notNull(),
    versionId: text('version_id').notNull(),
    sizeBytes: bigint('size_bytes', { mode: 'number' }).notNull(),
    contentType: text('content_type').notNull(),
    uploadedAt: instant('uploaded_at').notNull().default(sql`clock_timestamp()`),
    archivedByRun: uuid('archived_by_run'),
    archivedAt: instant('archived_at'),
  },
  (t) => [
    unique('landing_file_name').on(t.zoneId, t.filename),
    uniqueIndex('landing_file_seq').on(t.seq),
    index('landing_file_archived').on(t.archivedAt, t.id).where(sql`archived_by_run is not null`),
    /** Archived, and its object not moved yet. */
    index('landing_file_in_place')
      .on(t.archivedByRun)
      .where(sql`archived_by_run is not null and position('/_processed/' in path) = 0`),
    index('landing_file_active').on(t.zoneId, t.seq).where(sql`archived_by_run is null`),
  ],
)
