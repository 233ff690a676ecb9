import { sql } from 'drizzle-orm'
import { index, pgTable, primaryKey } from 'drizzle-orm/pg-core'
import { createdAt, instant } from './columns.ts'

/** Effects outside of the transaction that requested them. Each effect is idempotent and performed at least once. */
export const outbox = pgTable(
  'outbox',
  (pg) => ({
    id: pg.bigserial('id', { mode: 'number' }).primaryKey(),
    kind: pg.text('kind').notNull(),
    payload: pg.jsonb('payload').notNull(),
    /** The effect is not performed before this time, because of a claim or a backoff. */
    dueAt: instant('due_at').notNull(),
    tries: pg.integer('tries').notNull().default(0),
    createdAt: createdAt(),
  }),
  (t) => [
    index('outbox_due').on(t.dueAt, t.id),
    /** For uploads in progress, by path. Other effects are never searched by path. */
    index('outbox_intended').on(sql`(payload ->> 'path')`).where(sql`kind = 'abandonedUpload' and tries = 0`),
  ],
)

/** Live API processes. Another replica adopts the runs of an expired one. */
export const replicas = pgTable('replica', (pg) => ({
  name: pg.text('name').primaryKey(),
  aliveUntil: instant('alive_until').notNull(),
}))

/**
 * Leases of the roles that only one replica may hold, by database time. Every writing transaction of a leader locks its row FOR
 * SHARE with its epoch. A challenger that finds the lease expired ends the old backend and raises the epoch.
 */
export const leaders = pgTable('leader', (pg) => ({
  role: pg.text('role').primaryKey(),
  holder: pg.text('holder').notNull(),
  /** The backend of the connection with which the holder writes. */
  backendPid: pg.integer('backend_pid').notNull(),
  epoch: pg.bigint('epoch', { mode: 'number' }).notNull(),
  until: instant('until').notNull(),
}))

/** Stored answers for repeated requests (header Idempotency-Key), kept for one day. */
export const idempotencyKeys = pgTable(
  'idempotency_key',
  (pg) => ({
    /** The sender of the request; empty without authentication. */
    caller: pg.text('caller').notNull(),
    /** Method and route pattern. */
    operation: pg.text('operation').notNull(),
    key: pg.text('key').notNull(),
    /** SHA-256 of the request in hex. The same key with another request is a conflict. */
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
 * Every POST, PUT and DELETE under /api/v1 by a caller with a credential, whatever its outcome. Refused callers without a
 * credential are counted: one row a minute and status.
 */
export const auditEntries = pgTable(
  'audit_entry',
  (pg) => ({
    id: pg.uuid('id').primaryKey(),
    userId: pg.text('user_id').notNull(),
    /** post, put or delete. */
    action: pg.text('action').notNull(),
    /** The path without its query. */
    resource: pg.text('resource').notNull(),
    detail: pg.text('detail').notNull().default(''),
    ip: pg.text('ip').notNull(),
    /** Address of the connection. For forwarded requests, this is the proxy, and `ip` is the client. */
    peer: pg.text('peer').notNull().default(''),
    /** HTTP status of the response; 0 in rows from before this column existed. */
    status: pg.integer('status').notNull().default(0),
    /** Name of the API key. */
    key: pg.text('key').notNull().default(''),
    /** The number of requests in this row. */
    count: pg.integer('count').notNull().default(1),
    createdAt: createdAt(),
  }),
  (t) => [index('audit_entry_created').on(t.createdAt, t.id)],
)

/** Values that all replicas share: the key that signs attempt tokens, and the root of the lake's locations. */
export const secrets = pgTable('secret', (pg) => ({
  name: pg.text('name').primaryKey(),
  value: pg.text('value').notNull(),
  createdAt: createdAt(),
}))

/** Every transition of every statechart. */
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
    /** The sender of the event. */
    cause: pg.text('cause').notNull(),
  }),
  (t) => [index('transition_of').on(t.machine, t.entityId, t.id)],
)

/**
 * The number of runs is the sum of `change`. Triggers on `run` add a row for each statement, in its transaction. So writers
 * never wait for each other. app/runs/store/list.ts folds the rows into one.
 */
export const runTotals = pgTable('run_total', (pg) => ({
  change: pg.bigint('change', { mode: 'number' }).notNull(),
}))
