// Stores the heartbeats of this replica. Takes over runs of dead replicas, and its own runs without a follower.
import type { RunId } from '../../app/core/ids.ts'
import { limits } from '../../app/core/limits.ts'
import type { Log } from '../../app/core/log.ts'
import {
  adoptOrphans,
  attemptsFollowedBy,
  handleOf,
  openAttemptsOf,
  renewReplica,
} from '../../app/runs/service.ts'
import type { Sql } from '../../drizzle/client.ts'
import { startLoop } from '../threads/loop.ts'
import type { Ender } from './ender.ts'
import type { Follower } from './follower.ts'
import { forgetReplica } from './store.ts'

interface PresenceDeps {
  sql: Sql
  replica: string
  follower: Pick<Follower, 'follow' | 'isFollowed'>
  ender: Pick<Ender, 'has'>
  includesInputs: boolean
  log: Log
}

export function startPresence({ renewMs, ...deps }: PresenceDeps & { renewMs: number }) {
  const renew = makePresence(deps)
  const loop = startLoop({
    everyMs: renewMs,
    onError: (error) =>
      deps.log.error('replica heartbeat not stored: retrying', {
        replica: deps.replica,
        retryMs: renewMs,
        error,
      }),
    tick: async () => (await renew()).adopted === limits.dispatchBatch,
  })
  return {
    stop: loop.stop,
    /** Removes this replica's row, so that other replicas take over at once. */
    deregister: () => forgetReplica(deps.sql, deps.replica),
  }
}

/** Stores one heartbeat. Returns the number of adopted runs, and of own runs that are followed again. */
export function makePresence({ sql, replica, follower, ender, includesInputs, log }: PresenceDeps) {
  let suspects = new Set<RunId>()

  /** Runs that the database assigns to this replica, but that had no follower here in two ticks. */
  async function unfollowed(): Promise<RunId[]> {
    const missed = (await attemptsFollowedBy(sql, replica)).filter(
      ({ runId, attempt }) => !follower.isFollowed(handleOf(runId, attempt)) && !ender.has(runId),
    )
    const again = missed.filter(({ runId }) => suspects.has(runId)).map(({ runId }) => runId)
    suspects = new Set(missed.map(({ runId }) => runId))
    if (again.length > 0) log.warn('runs without a follower: following them again', { count: again.length })
    return again
  }

  return async () => {
    await renewReplica(sql, replica)
    const adopted = await adoptOrphans(sql, replica, limits.dispatchBatch)
    if (adopted.length > 0) log.info('adopted runs of a stopped replica', { count: adopted.length })
    const again = await unfollowed()
    const found = await openAttemptsOf(sql, [...adopted, ...again], includesInputs)
    for (const attempt of found) follower.follow(attempt)
    return { adopted: adopted.length, again: again.length }
  }
}
