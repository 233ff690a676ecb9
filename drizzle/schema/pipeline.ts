import { sql } from 'drizzle-orm'
import {
  bigint,
  boolean,
  check,
  index,
  integer,
  jsonb,
  pgTable,
  text,
  unique,
  uniqueIndex,
  uuid,
} from 'drizzle-orm/pg-core'
import type { Stored } from '../../machines/advance.ts'
import { createdAt, instant, updatedAt } from './columns.ts'

/** Which zones a set of pipeline files names literally, as `ns.zone`; frozen when a run of them starts. */
export type LandingZoneNames = string[]
/** Object path to storage version id. */
export type PinnedFiles = Record<string, string>

export const pipelines = pgTable(
  'pipeline',
  {
    id: uuid('id').primaryKey(),
    namespace: text('namespace').notNull(),
    layer: text('layer').$type<'bronze' | 'silver' | 'gold'>().notNull(),
    name: text('name').notNull(),
    type: text('type').$type<'sql' | 'python'>().notNull(),
    owner: text('owner'),
    /** Earlier owners, since its owner has published it: until then its code sees only what all of them see. */
    handedBy: text('handed_by').array().notNull().default(sql`'{}'::text[]`),
    /** Owners before somebody vouched for the code: what is older than `vouchedVersion`, or no version, sees only what they see too. */
    handedBefore: text('handed_before').array().notNull().default(sql`'{}'::text[]`),
    vouchedVersion: integer('vouched_version'),
    description: text('description').notNull().default(''),
    /** The draft statechart: `{value, context, status}`; the columns below are written from it in the same UPDATE. */
    draftSnapshot: jsonb('draft_snapshot').$type<Stored>().notNull(),
    draftMachineVersion: integer('draft_machine_version').notNull(),
    draftDirty: boolean('draft_dirty').notNull(),
    draftRevision: bigint('draft_revision', { mode: 'number' }).notNull().default(0),
    /** Number of the version that runs execute; null while never published. */
    publishedVersion: integer('published_version'),
    publishedAt: instant('published_at'),
    maxVersions: integer('max_versions').notNull().default(50),
    createdAt: createdAt(),
    updatedAt: updatedAt(),
    deletedAt: instant('deleted_at'),
  },
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
  {
    id: uuid('id').primaryKey(),
    pipelineId: uuid('pipeline_id')
      .notNull()
      .references(() => pipelines.id, { onDelete: 'cascade' }),
    versionNumber: integer('version_number').notNull(),
    message: text('message').notNull(),
    pipelineType: text('pipeline_type').$type<'sql' | 'python'>().notNull(),
    publishedVersions: jsonb('published_versions').$type<PinnedFiles>().notNull(),
    landingZones: jsonb('landing_zones').$type<LandingZoneNames>().notNull(),
    createdAt: createdAt(),
  },
  (t) => [unique('pipeline_version_number').on(t.pipelineId, t.versionNumber)],
)
