import { sql } from 'drizzle-orm'
import { check, index, pgTable, primaryKey, uniqueIndex } from 'drizzle-orm/pg-core'
import { createdAt, instant, tableName } from './columns.ts'

/** A table's columns in the order that readers see. `type` is the engine's name of the type. */
type ContentColumns = { name: string; type: string }[]

/** One immutable state of one table or view: a metadata file and the values that readers need. A view has no rows and no files. */
export const lakeContents = pgTable('lake_content', (pg) => ({
  id: pg.uuid('id').primaryKey(),
  kind: pg
    .text('kind', { enum: ['table', 'view'] })
    .notNull()
    .default('table'),
  tableUuid: pg.uuid('table_uuid').notNull(),
  metadataLocation: pg.text('metadata_location').notNull(),
  /** int64 as text, because a JavaScript number cannot hold it. */
  snapshotId: pg.text('snapshot_id'),
  columns: pg.jsonb('columns').$type<ContentColumns>().notNull(),
  rowCount: pg.bigint('row_count', { mode: 'number' }).notNull(),
  sizeBytes: pg.bigint('size_bytes', { mode: 'number' }).notNull(),
  /** How the state before became this one: an operation of Iceberg, `restore`, `expire`, `create` or `alter`. */
  operation: pg.text('operation'),
  /** Inserted or changed rows, and changed or removed rows. Null in states of an older program. */
  rowsAdded: pg.bigint('rows_added', { mode: 'number' }),
  rowsRemoved: pg.bigint('rows_removed', { mode: 'number' }),
  createdAt: createdAt(),
}))

/**
 * `main`, the branches of attempts and of users, and tags. `number` is the head of main. `base` is the commit of main on which
 * a branch is based, or that a tag names. The base of main is its oldest commit whose tables are all kept.
 */
export const lakeRefs = pgTable(
  'lake_ref',
  (pg) => ({
    name: pg.text('name').primaryKey(),
    state: pg
      .text('state', { enum: ['open', 'merged', 'deleted'] })
      .notNull()
      .default('open'),
    kind: pg
      .text('kind', { enum: ['main', 'run', 'user', 'tag'] })
      .notNull()
      .default('run'),
    number: pg.bigint('number', { mode: 'number' }),
    base: pg.bigint('base', { mode: 'number' }),
    /** The branch's latest commit; null while it has none. */
    head: pg.uuid('head'),
    runId: pg.uuid('run_id'),
    attempt: pg.integer('attempt'),
    /** The user's branch into which the branch of an attempt merges; null: main. */
    parent: pg.text('parent'),
    description: pg.text('description').notNull().default(''),
    /** The user or API key that created the branch; null without a credential. */
    createdBy: pg.text('created_by'),
    /** Everybody who has changed the branch: by a commit, by a run, or by a draft that a run executed. */
    authors: pg.text('authors').array().notNull().default(sql`'{}'::text[]`),
    /** The reaper closes the branch after this time. */
    expiresAt: instant('expires_at'),
    createdAt: createdAt(),
    /** The latest rebase, or merge of a run into the branch. */
    updatedAt: instant('updated_at'),
    closedAt: instant('closed_at'),
    /**
     * Set while the branch of a run with a failed gate is readable. Its state is `deleted`, and it has no closing time. The reaper
     * closes the branch after this time.
     */
    keptUntil: instant('kept_until'),
  }),
  (t) => [
    /** For closed branches that are old enough to be deleted. */
    index('lake_ref_closed').on(t.closedAt).where(sql`closed_at is not null`),
    index('lake_ref_open').on(t.createdAt).where(sql`state = 'open' and name <> 'main'`),
    /** For lists of branches and tags, which leave out the many branches of attempts. */
    index('lake_ref_listed').on(t.kind, t.name).where(sql`kind in ('user', 'tag')`),
    index('lake_ref_kept').on(t.keptUntil).where(sql`kept_until is not null`),
    index('lake_ref_parent').on(t.parent).where(sql`parent is not null`),
    check('lake_ref_state', sql`${t.state} in ('open', 'merged', 'deleted')`),
    check('lake_ref_kind', sql`${t.kind} in ('main', 'run', 'user', 'tag')`),
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
    /** The user or API key that made the commit; null for commits of runs and of the service. */
    author: pg.text('author'),
    message: pg.text('message').notNull(),
    /** The changed tables as `namespace.layer.name`, ordered by name. */
    tables: pg.text('tables').array().notNull().default(sql`'{}'`),
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
    /** Null: the branch dropped the table. */
    contentId: pg.uuid('content_id').references(() => lakeContents.id),
    baseContent: pg.uuid('base_content'),
  }),
  (t) => [
    primaryKey({ columns: [t.ref, t.namespace, t.layer, t.name] }),
    index('branch_entry_content').on(t.contentId),
    index('branch_entry_base_content').on(t.baseContent),
  ],
)

/**
 * New names of renamed tables. The files from before a rename stay in the directory of the old name, where the reaper finds them
 * by this record. A record never ends, because it only keeps files.
 */
export const lakeRenames = pgTable(
  'lake_rename',
  (pg) => ({
    ...tableName(),
    toNamespace: pg.text('to_namespace').notNull(),
    toLayer: pg.text('to_layer').notNull(),
    toName: pg.text('to_name').notNull(),
  }),
  (t) => [
    primaryKey({
      name: 'lake_rename_key',
      columns: [t.namespace, t.layer, t.name, t.toNamespace, t.toLayer, t.toName],
    }),
  ],
)

/**
 * Files that engines of users stored and that no commit names yet. A commit deletes the rows of its files. A removed file keeps
 * its row for a time, so that its name is never used again.
 */
export const lakeUploads = pgTable(
  'lake_upload',
  (pg) => ({
    key: pg.text('key').primaryKey(),
    /** The branch of the credentials; null: main. */
    branch: pg.text('branch'),
    size: pg.bigint('size', { mode: 'number' }).notNull(),
    /** SHA-256 of the bytes, in hexadecimal digits. */
    checksum: pg.text('checksum').notNull(),
    removedAt: instant('removed_at'),
    createdAt: createdAt(),
  }),
  (t) => [index('lake_upload_created').on(t.createdAt)],
)
