// Drafts: one per pipeline.
import { alias } from 'drizzle-orm/pg-core'
import { computed, pick, type RowOf, select } from '../../../drizzle/rows.ts'
import { pipelines } from '../../../drizzle/schema/pipeline.ts'
import type { Sql } from '../../../drizzle/sql.ts'
import {
  countedStates,
  FOUND,
  type InstanceFilter,
  type InstanceStore,
  latestMove,
  MOVED_AT,
  NONE,
  OF_PIPELINE,
  ownFilter,
} from './instance.ts'

const p = alias(pipelines, 'p')
const DRAFT = {
  ...OF_PIPELINE,
  ...pick(p, 'id', 'createdAt'),
  note: computed<string>("coalesce('version ' || p.published_version, 'never published')"),
}
const LISTED = {
  ...DRAFT,
  state: computed<string>("p.draft_snapshot->>'value'"),
  live: computed<boolean>('p.deleted_at is null'),
  attempt: NONE,
  movedAt: MOVED_AT,
  durationMs: NONE,
}
const INSTANCE = {
  machine: computed<'draft'>("'draft'"),
  ...FOUND,
  ...DRAFT,
  snapshot: p.draftSnapshot,
  machineVersion: p.draftMachineVersion,
  ...pick(p, 'type', 'draftRevision', 'publishedVersion', 'publishedAt', 'deletedAt'),
}

export const draftInstances: InstanceStore<RowOf<typeof INSTANCE>> = {
  list: (sql, filter, states, { limit, offset }) => select(sql, LISTED)`
    from (select p.* from ${drafts(sql, filter)} ${states === null ? sql`` : sql`and ${state(sql)} in ${sql(states)}`}
      ${order(sql)} limit ${limit} offset ${offset}) p
    ${latestMove(sql, 'draft', sql`p.id`)}
    ${order(sql)}`,

  count: (sql, filter) => countedStates(sql, sql`select ${state(sql)} as state from ${drafts(sql, filter)}`),

  async find(sql, id) {
    const [draft] = await select(sql, INSTANCE)`from pipeline p where p.id = ${id}`
    return draft
  },
}

const drafts = (sql: Sql, filter: InstanceFilter) =>
  sql`pipeline p where true ${ownFilter(sql, sql`p.id`, filter)}`

const state = (sql: Sql) => sql`p.draft_snapshot->>'value'`

/** Deleted drafts come last. */
const order = (sql: Sql) => sql`order by p.deleted_at is not null, p.created_at desc, p.id desc`
