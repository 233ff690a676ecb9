import { sql } from 'drizzle-orm'
import { index, pgTable, unique, uniqueIndex } from 'drizzle-orm/pg-core'
import { createdAt, instant, updatedAt } from './columns.ts'

export const landingZones = pgTable(
  'landing_zone',
  (pg) => ({
    id: pg.uuid('id').primaryKey(),
    namespace: pg.text('namespace').notNull(),
    name: pg.text('name').notNull(),
    description: pg.text('description').notNull().default(''),
    owner: pg.text('owner'),
    expectedSchema: pg.text('expected_schema'),
    processedMaxAgeDays: pg.integer('processed_max_age_days').notNull().default(30),
    autoPurge: pg.boolean('auto_purge').notNull().default(false),
    createdAt: createdAt(),
    updatedAt: updatedAt(),
  }),
  (t) => [
    unique('landing_zone_name').on(t.namespace, t.name),
    index('landing_zone_owner').on(t.owner).where(sql`owner is not null`),
  ],
)

/**
 * A file of a zone. The file is active until a successful run archives it, which sets `archivedByRun`. The object moves later.
 * A file with `quarantinedAt` is not active either, until somebody restores it. An archived file stays archived.
 */
export const landingFiles = pgTable(
  'landing_file',
  (pg) => ({
    id: pg.uuid('id').primaryKey(),
    zoneId: pg
      .uuid('zone_id')
      .notNull()
      .references(() => landingZones.id, { onDelete: 'cascade' }),
    seq: pg.bigserial('seq', { mode: 'number' }).notNull(),
    filename: pg.text('filename').notNull(),
    originalName: pg.text('original_name').notNull(),
    path: pg.text('path').notNull(),
    versionId: pg.text('version_id').notNull(),
    sizeBytes: pg.bigint('size_bytes', { mode: 'number' }).notNull(),
    contentType: pg.text('content_type').notNull(),
    uploadedAt: instant('uploaded_at').notNull().default(sql`clock_timestamp()`),
    archivedByRun: pg.uuid('archived_by_run'),
    archivedAt: instant('archived_at'),
    quarantinedAt: instant('quarantined_at'),
  }),
  (t) => [
    unique('landing_file_name').on(t.zoneId, t.filename),
    uniqueIndex('landing_file_seq').on(t.seq),
    index('landing_file_archived').on(t.archivedAt, t.id).where(sql`archived_by_run is not null`),
    /** For archived files whose objects have not moved yet. */
    index('landing_file_in_place')
      .on(t.archivedByRun)
      .where(sql`archived_by_run is not null and position('/_processed/' in path) = 0`),
    index('landing_file_active').on(t.zoneId, t.seq).where(sql`archived_by_run is null`),
  ],
)
