import { sql } from 'drizzle-orm'
import { check, index, pgTable, primaryKey, uniqueIndex } from 'drizzle-orm/pg-core'
import { createdAt, instant, tableName } from './columns.ts'

/** A table's columns in the order that readers see. `type` is the engine's name of the type. */
export type ContentColumns = { name: string; type: string }[]

/** One immutable state of one table: a metadata file and the values that readers need. */
export const lakeContents = pgTable('lake_content', (pg) => ({
  id: pg.uuid('id').primaryKey(),
  tableUuid: pg.uuid('table_uuid').notNull(),
  metadataLocation: pg.text('metadata_location').notNull(),
  /** int64 as text, because a JavaScript number cannot hold it. */
  snapshotId: pg.text('snapshot_id'),
  columns: pg.jsonb('columns').$type<ContentColumns>().notNull(),
  rowCount: pg.bigint('row_count', { mode: 'number' }).notNull(),
  sizeBytes: pg.bigint('size_bytes', { mode: 'number' }).notNull(),
  createdAt: createdAt(),
}))

/**
 * `main` and the branches of attempts. `number` is the head of main. `base` is the commit of main on which a branch is based.
 */
export const lakeRefs = pgTable(
  'lake_ref',
  (pg) => ({
    name: pg.text('name').primaryKey(),
    state: pg
      .text('state', { enum: ['open', 'merged', 'deleted'] })
      .notNull()
      .default('open'),
    number: pg.bigint('number', { mode: 'number' }),
    base: pg.bigint('base', { mode: 'number' }),
    /** The branch's latest commit; null while it has none. */
    head: pg.uuid('head'),
    runId: pg.uuid('run_id'),
    attempt: pg.integer('attempt'),
    createdAt: createdAt(),
    closedAt: instant('closed_at'),
  }),
  (t) => [
    /** For closed branches that are old enough to be deleted. */
    index('lake_ref_closed').on(t.closedAt).where(sql`closed_at is not null`),
    index('lake_ref_open').on(t.createdAt).where(sql`state = 'open' and name <> 'main'`),
    check('lake_ref_state', sql`${t.state} in ('open', 'merged', 'deleted')`),
  ],
)

/** `number` is the position on main. Commits of branches have no number until they are merged. */
export const lakeCommits = pgTable(
  'lake_commit',
  (pg) => ({
    id: pg.uuid('id').primaryKey(),
    ref: pg.text('ref').notNull(),
    number: pg.bigint('number', { mode: 'number' }),
    base: pg.bigint('base', { mode: 'number' }).notNull(),
    runId: pg.uuid('run_id'),
    message: pg.text('message').notNull(),
    createdAt: createdAt(),
  }),
  (t) => [
    uniqueIndex('lake_commit_number').on(t.number).where(sql`number is not null`),
    index('lake_commit_ref').on(t.ref),
  ],
)

/**
 * The content of a table of main from one commit (inclusive) to another (exclusive). A null `toCommit` means that the content
 * is current.
 */
export const mainEntries = pgTable(
  'main_entry',
  (pg) => ({
    ...tableName(),
    contentId: pg
      .uuid('content_id')
      .notNull()
      .references(() => lakeContents.id),
    fromCommit: pg.bigint('from_commit', { mode: 'number' }).notNull(),
    toCommit: pg.bigint('to_commit', { mode: 'number' }),
  }),
  (t) => [
    primaryKey({ columns: [t.namespace, t.layer, t.name, t.fromCommit] }),
    uniqueIndex('main_entry_live').on(t.namespace, t.layer, t.name).where(sql`to_commit is null`),
    index('main_entry_content').on(t.contentId),
    index('main_entry_changes').on(t.fromCommit),
    index('main_entry_ended').on(t.toCommit).where(sql`to_commit is not null`),
  ],
)

/**
 * Changes of a branch. `baseContent` is the content on main at the branch's base, not the current one. Storing the current
 * content would permit a lost update.
 */
export const branchEntries = pgTable(
  'branch_entry',
  (pg) => ({
    ref: pg
      .text('ref')
      .notNull()
      .references(() => lakeRefs.name, { onDelete: 'cascade' }),
    ...tableName(),
    contentId: pg
      .uuid('content_id')
      .notNull()
      .references(() => lakeContents.id),
    baseContent: pg.uuid('base_content'),
  }),
  (t) => [
    primaryKey({ columns: [t.ref, t.namespace, t.layer, t.name] }),
    index('branch_entry_content').on(t.contentId),
  ],
)
