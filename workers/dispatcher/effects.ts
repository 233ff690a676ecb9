// The loop that performs what transactions have asked for. It runs where the object store is open.
import { limits } from '../../app/core/limits.ts'
import type { Log } from '../../app/core/log.ts'
import type { Sql } from '../../drizzle/client.ts'
import { type Loop, startLoop } from '../threads/loop.ts'
import { type Effect, performDue } from './outbox.ts'

/** Names no runtime: a process that answers HTTP on any of them performs its effects itself. */
export const startEffects = (sql: Sql, effects: Readonly<Record<string, Effect>>, log: Log): Loop =>
  startLoop({
    everyMs: limits.sweepMs,
    onError: (error) => log.error('performing effects failed', { error }),
    tick: () =>
      performDue(sql, effects, (kind, error) =>
        log.warn(`effect ${kind} failed; it is tried again`, { error }),
      ),
  })
