import { sql } from 'drizzle-orm'
import { index, pgTable, primaryKey } from 'drizzle-orm/pg-core'
import { createdAt, instant } from './columns.ts'

/** Effects that must happen outside the transaction that decided them. Performed at least once; each is idempotent. */
export const outbox = pgTable(
  'outbox',
  (pg) => ({
    id: pg.bigserial('id', { mode: 'number' }).primaryKey(),
    kind: pg.text('kind').notNull(),
    payload: pg.jsonb('payload').notNull(),
    /** Not performed (again) before this time: a claim, or a back-off. */
    dueAt: instant('due_at').notNull(),
    tries: pg.integer('tries').notNull().default(0),
    createdAt: createdAt(),
  }),
  (t) => [
    index('outbox_due').on(t.dueAt, t.id),
    /** Uploads under way by their path: nobody looks for any other effect. */
    index('outbox_intended').on(sql`(payload ->> 'path')`).where(sql`kind = 'abandonedUpload' and tries = 0`),
  ],
)

/** API processes that are alive. The runs followed by an expired one are adopted by another. */
export const replicas = pgTable('replica', (pg) => ({
  name: pg.text('name').primaryKey(),
  aliveUntil: instant('alive_until').notNull(),
}))

/**
 * Who does what only one replica may do, by database time. Every writing transaction of a leader locks its row FOR SHARE
 * at its epoch; a challenger that finds the lease expired ends the old backend and raises the epoch.
 */
export const leaders = pgTable('leader', (pg) => ({
  role: pg.text('role').primaryKey(),
  holder: pg.text('holder').notNull(),
  /** The connection the holder writes with. */
  backendPid: pg.integer('backend_pid').notNull(),
  epoch: pg.bigint('epoch', { mode: 'number' }).notNull(),
  until: instant('until').notNull(),
}))

/** Answers that a repeated request gets again (header Idempotency-Key); kept for a day. */
export const idempotencyKeys = pgTable(
  'idempotency_key',
  (pg) => ({
    /** Who sent it: empty without authentication. */
    caller: pg.text('caller').notNull(),
    /** Method and route pattern. */
    operation: pg.text('operation').notNull(),
    key: pg.text('key').notNull(),
    /** SHA-256 of what was asked, hex: the same key with another request is a conflict. */
    requestHash: pg.text('request_hash').notNull(),
    status: pg.integer('status').notNull(),
    body: pg.jsonb('body').notNull(),
    createdAt: createdAt(),
  }),
  (t) => [
    primaryKey({ columns: [t.caller, t.operation, t.key] }),
    index('idempotency_key_created').on(t.createdAt),
  ],
)

/**
 * Every POST, PUT and DELETE under /api/v1 of a caller with a credential, whatever its outcome. Refusals of callers without
 * one are counted: a row may stand for many of them.
 */
export const auditEntries = pgTable(
  'audit_entry',
  (pg) => ({
    id: pg.uuid('id').primaryKey(),
    userId: pg.text('user_id').notNull(),
    /** post, put, delete */
    action: pg.text('action').notNull(),
    /** The path without its query. */
    resource: pg.text('resource').notNull(),
    detail: pg.text('detail').notNull().default(''),
    ip: pg.text('ip').notNull(),
    /** Address of the connection itself. */
    peer: pg.text('peer').notNull().default(''),
    /** HTTP status of the answer; 0 in rows that were stored before this column existed. */
    status: pg.integer('status').notNull().default(0),
    /** Name of the API key. */
    key: pg.text('key').notNull().default(''),
    /** Requests that this row stands for. */
    count: pg.integer('count').notNull().default(1),
    createdAt: createdAt(),
  }),
  (t) => [index('audit_entry_created').on(t.createdAt, t.id)],
)

/** Values every replica must share and nobody may guess, such as the key that signs attempt tokens. */
export const secrets = pgTable('secret', (pg) => ({
  name: pg.text('name').primaryKey(),
  value: pg.text('value').notNull(),
  createdAt: createdAt(),
}))

/** Every move of every statechart. */
export const transitions = pgTable(
  'transition',
  (pg) => ({
    id: pg.bigserial('id', { mode: 'number' }).primaryKey(),
    machine: pg.text('machine').notNull(),
    entityId: pg.uuid('entity_id').notNull(),
    at: instant('at').notNull(),
    event: pg.text('event').notNull(),
    from: pg.text('from').notNull(),
    to: pg.text('to').notNull(),
    effects: pg.jsonb('effects').$type<string[]>().notNull(),
    /** Who or what sent the event. */
    cause: pg.text('cause').notNull(),
  }),
  (t) => [index('transition_of').on(t.machine, t.entityId, t.id)],
)

/**
 * The number of runs. Triggers on `run` add a row with the change in the transaction of each statement that changes it, so
 * that writers never wait for each other: the sum is the total. app/runs/store/list.ts folds the rows into one.
 */
export const runTotals = pgTable('run_total', (pg) => ({
  change: pg.bigint('change', { mode: 'number' }).notNull(),
}))
