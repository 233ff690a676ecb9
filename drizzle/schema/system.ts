import { bigserial, index, integer, jsonb, pgTable, text, uuid } from 'drizzle-orm/pg-core'
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
  (t) => [index('outbox_due').on(t.dueAt, t.id)],
)

/** API processes that are alive. The runs followed by an expired one are adopted by another. */
export const replicas = pgTable('replica', {
  name: text('name').primaryKey(),
  aliveUntil: instant('alive_until').notNull(),
})

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
