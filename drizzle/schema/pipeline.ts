import { sql } from 'drizzle-orm'
import { check, index, pgTable, unique, uniqueIndex } from 'drizzle-orm/pg-core'
import type { Stored } from '../../machines/advance.ts'
import { createdAt, instant, tableName, updatedAt } from './columns.ts'

/** Which zones a set of pipeline files names literally, as `ns.zone`; frozen when a run of them starts. */
export type LandingZoneNames = string[]
/** Object path to storage version id. */
export type PinnedFiles = Record<string, string>

export const pipelines = pgTable(
  'pipeline',
  (pg) => ({
    id: pg.uuid('id').primaryKey(),
    ...tableName(),
    type: pg.text('type').$type<'sql' | 'python'>().notNull(),
    owner: pg.text('owner'),
    /** Earlier owners, since its owner has published it: until then its code sees only what all of them see. */
    handedBy: pg.text('handed_by').array().notNull().default(sql`'{}'::text[]`),
    /** Owners before somebody vouched for the code: what is older than `vouchedVersion`, or no version, sees only what they see too. */
    handedBefore: pg.text('handed_before').array().notNull().default(sql`'{}'::text[]`),
    vouchedVersion: pg.integer('vouched_version'),
    description: pg.text('description').notNull().default(''),
    /** The draft statechart: `{value, context, status}`; the columns below are written from it in the same UPDATE. */
    draftSnapshot: pg.jsonb('draft_snapshot').$type<Stored>().notNull(),
    draftMachineVersion: pg.integer('draft_machine_version').notNull(),
    draftDirty: pg.boolean('draft_dirty').notNull(),
    draftRevision: pg.bigint('draft_revision', { mode: 'number' }).notNull().default(0),
    /** Number of the version that runs execute; null while never published. */
    publishedVersion: pg.integer('published_version'),
    publishedAt: instant('published_at'),
    maxVersions: pg.integer('max_versions').notNull().default(50),
    createdAt: createdAt(),
    updatedAt: updatedAt(),
    deletedAt: instant('deleted_at'),
  }),
  (t) => [
    uniqueIndex('pipeline_live_name').on(t.namespace, t.layer, t.name).where(sql`deleted_at is null`),
    index('pipeline_owner').on(t.owner).where(sql`owner is not null`),
    index('pipeline_deleted').on(t.deletedAt).where(sql`deleted_at is not null`),
    index('pipeline_created').on(t.createdAt, t.id),
    /** Deleted ones too: their runs are listed under their names. */
    index('pipeline_named').on(t.name, t.namespace, t.layer),
    check('pipeline_layer', sql`${t.layer} in ('bronze', 'silver', 'gold')`),
    check('pipeline_type', sql`${t.type} in ('sql', 'python')`),
  ],
)

export const pipelineVersions = pgTable(
  'pipeline_version',
  (pg) => ({
    id: pg.uuid('id').primaryKey(),
    pipelineId: pg
      .uuid('pipeline_id')
      .notNull()
      .references(() => pipelines.id, { onDelete: 'cascade' }),
    versionNumber: pg.integer('version_number').notNull(),
    message: pg.text('message').notNull(),
    pipelineType: pg.text('pipeline_type').$type<'sql' | 'python'>().notNull(),
    publishedVersions: pg.jsonb('published_versions').$type<PinnedFiles>().notNull(),
    landingZones: pg.jsonb('landing_zones').$type<LandingZoneNames>().notNull(),
    createdAt: createdAt(),
  }),
  (t) => [unique('pipeline_version_number').on(t.pipelineId, t.versionNumber)],
)
