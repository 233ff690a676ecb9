import { sql } from 'drizzle-orm'
import { check, index, pgTable, unique, uniqueIndex } from 'drizzle-orm/pg-core'
import type { Stored } from '../../machines/advance.ts'
import { createdAt, instant, tableName, updatedAt } from './columns.ts'
import type { Review } from './namespace.ts'

/** The zones that a set of pipeline files names literally, as `ns.zone`. Their files are frozen when a run starts. */
export type LandingZoneNames = string[]
/** The demands of a pipeline on the runner of its runs. A version stores them, and a run pins them like its code. */
export interface Placement {
  /** Labels that the runner must have: those of `runs_on`, and features of the configuration such as `merge:review`. */
  runsOn: readonly string[]
  /** Memory that the engine needs; null: any runner is enough. */
  memoryBytes: number | null
  /** Waiting runs with a greater priority start first. */
  priority: number
}
/** Maps an object path to a version id of the object store. */
export type PinnedFiles = Record<string, string>

export const pipelines = pgTable(
  'pipeline',
  (pg) => ({
    id: pg.uuid('id').primaryKey(),
    ...tableName(),
    type: pg.text('type').$type<'sql' | 'python'>().notNull(),
    owner: pg.text('owner'),
    /**
     * Earlier owners since the last approval, which is a publication by the owner. Until the next one, the code sees only what
     * all of them see.
     */
    handedBy: pg.text('handed_by').array().notNull().default(sql`'{}'::text[]`),
    /**
     * Earlier owners before the last approval of the code. Code older than `vouchedVersion` and code of drafts sees only what
     * they see too.
     */
    handedBefore: pg.text('handed_before').array().notNull().default(sql`'{}'::text[]`),
    vouchedVersion: pg.integer('vouched_version'),
    description: pg.text('description').notNull().default(''),
    /** Snapshot of the draft statechart: `{value, context, status}`. The same UPDATE writes the columns below from it. */
    draftSnapshot: pg.jsonb('draft_snapshot').$type<Stored>().notNull(),
    draftMachineVersion: pg.integer('draft_machine_version').notNull(),
    draftDirty: pg.boolean('draft_dirty').notNull(),
    draftRevision: pg.bigint('draft_revision', { mode: 'number' }).notNull().default(0),
    /** Everybody who has changed the draft since the last publish. */
    draftAuthors: pg.text('draft_authors').array().notNull().default(sql`'{}'::text[]`),
    /** The number of the version that runs execute; null before the first publish. */
    publishedVersion: pg.integer('published_version'),
    publishedAt: instant('published_at'),
    /** The rule of the published version for its table; null: not published, or published by an older program. */
    review: pg.text('review').$type<Review>(),
    /** The tags of the published version. */
    tags: pg.text('tags').array().notNull().default(sql`'{}'::text[]`),
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
    /** Includes deleted pipelines, because their runs are listed by name. */
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
    /** Null: any runner is enough, and the priority is 0. */
    placement: pg.jsonb('placement').$type<Placement>(),
    tags: pg.text('tags').array().notNull().default(sql`'{}'::text[]`),
    createdAt: createdAt(),
  }),
  (t) => [unique('pipeline_version_number').on(t.pipelineId, t.versionNumber)],
)
