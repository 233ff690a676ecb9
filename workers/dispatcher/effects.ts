// The loop that performs the effects queued by transactions. It runs in the process that opens the object store.
import { limits } from '../../app/core/limits.ts'
import type { Log } from '../../app/core/log.ts'
import type { Sql } from '../../drizzle/client.ts'
import { type Loop, startLoop } from '../threads/loop.ts'
import { type Effect, performDue } from './outbox.ts'

/** Uses no API of a specific runtime: every process that serves HTTP performs its own effects. */
export const startEffects = (sql: Sql, effects: Readonly<Record<string, Effect>>, log: Log): Loop =>
  startLoop({
    everyMs: limits.sweepMs,
    onError: (error) => log.error('performing effects failed: retrying', { error }),
    tick: () =>
      performDue(sql, effects, (kind, error) => log.warn(`effect ${kind} failed: retrying later`, { error })),
  })
