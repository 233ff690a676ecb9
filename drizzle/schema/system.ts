import { sql } from 'drizzle-orm'
import {
  bigint,
  bigserial,
  index,
  integer,
  jsonb,
  pgTable,
  primaryKey,
  text,
  uuid,
} from 'drizzle-orm/pg-core'
import { createdAt, instant } from './columns.ts'

/** Effects that must happen outside the transaction that decided them. Performed at least once; each is idempotent. */
export const outbox = pgTable(
  'outbox',
  {
    id: bigserial('id', { mode: 'number' }).primaryKey(),
    kind: text('kind').notNull(),
    payload: jsonb('payload').notNull(),
    /** Not performed (again) before this time: a claim, or a back-off. */
    dueAt: instant('due_at').notNull(),
    tries: integer('tries').notNull().default(0),
    createdAt: createdAt(),
  },
  (t) => [
    index('outbox_due').on(t.dueAt, t.id),
    /** Uploads under way by their path: nobody looks for any other effect. */
    index('outbox_intended').on(sql`(payload ->> 'path')`).where(sql`kind = 'abandonedUpload' and tries = 0`),
  ],
)

/** API processes that are alive. The runs followed by an expired one are adopted by another. */
export const replicas = pgTable('replica', {
  name: text('name').primaryKey(),
  aliveUntil: instant('alive_until').notNull(),
})

/**
 * Who does what only one replica may do, by database time. Every writing transaction of a leader locks its row FOR SHARE
 * at its epoch; a challenger that finds the lease expired ends the old backend and raises the epoch.
 */
export const leaders = pgTable('leader', {
  role: text('role').primaryKey(),
  holder: text('holder').notNull(),
  /** The connection the holder writes with. */
  backendPid: integer('backend_pid').notNull(),
  epoch: bigint('epoch', { mode: 'number' }).notNull(),
  until: instant('until').notNull(),
})

/** Answers that a repeated request gets again (header Idempotency-Key); kept for a day. */
export const idempotencyKeys = pgTable(
  'idempotency_key',
  {
    /** Who sent it: empty without authentication. */
    caller: text('caller').notNull(),
    /** Method and route pattern. */
    operation: text('operation').notNull(),
    key: text('key').notNull(),
    /** SHA-256 of what was asked, hex: the same key with another request is a conflict. */
    requestHash: text('request_hash').notNull(),
    status: integer('status').notNull(),
    body: jsonb('body').notNull(),
    createdAt: createdAt(),
  },
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
  {
    id: uuid('id').primaryKey(),
    userId: text('user_id').notNull(),
    /** post, put, delete */
    action: text('action').notNull(),
    /** The path without its query. */
    resource: text('resource').notNull(),
    detail: text('detail').notNull().default(''),
    ip: text('ip').notNull(),
    /** Address of the connection itself. */
    peer: text('peer').notNull().default(''),
    /** HTTP status of the answer; 0 in rows that were stored before this column existed. */
    status: integer('status').notNull().default(0),
    /** Name of the API key. */
    key: text('key').notNull().default(''),
    /** Requests that this row stands for. */
    count: integer('count').notNull().default(1),
    createdAt: createdAt(),
  },
  (t) => [index('audit_entry_created').on(t.createdAt, t.id)],
)

/** Values every replica must share and nobody may guess, such as the key that signs attempt tokens. */
export const secrets = pgTable('secret', {
  name: text('name').primaryKey(),
  value: text('value').notNull(),
  createdAt: createdAt(),
})

/** Every move of every statechart. */
export const transitions = pgTable(
  'transition',
  {
    id: bigserial('id', { mode: 'number' }).primaryKey(),
    machine: text('machine').notNull(),
    entityId: uuid('entity_id').notNull(),
    at: instant('at').notNull(),
    event: text('event').notNull(),
    from: text('from').notNull(),
    to: text('to').notNull(),
    effects: jsonb('effects').$type<string[]>().notNull(),
    /** Who or what sent the event. */
    cause: text('cause').notNull(),
  },
  (t) => [index('transition_of').on(t.machine, t.entityId, t.id)],
)

/**
 * The number of runs. Triggers on `run` add a row with the change in the transaction of each statement that changes it, so
 * that writers never wait for each other: the sum is the total. app/runs/store/list.ts folds the rows into one.
 */
export const runTotals = pgTable('run_total', {
  change: bigint('change', { mode: 'number' }).notNull(),
})
