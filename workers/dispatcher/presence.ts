// The sign of life of this replica, and the runs it takes over: of replicas that are gone, or of its own that nobody follows.
import type { RunId } from '../../app/core/ids.ts'
import { limits } from '../../app/core/limits.ts'
import type { Log } from '../../app/core/log.ts'
import {
  adoptOrphans,
  attemptsFollowedBy,
  giveSignOfLife,
  handleOf,
  openAttemptsOf,
} from '../../app/runs/service.ts'
import type { Sql } from '../../drizzle/client.ts'
import { startLoop } from '../threads/loop.ts'
import type { Ender } from './ender.ts'
import type { Follower } from './follower.ts'
import { forgetReplica } from './store.ts'

export interface PresenceDeps {
  sql: Sql
  replica: string
  follower: Follower
  ender: Pick<Ender, 'has'>
  tellsInputs: boolean
  log: Log
  renewMs: number
}

export function startPresence({ sql, replica, follower, ender, tellsInputs, log, renewMs }: PresenceDeps) {
  let suspects = new Set<RunId>()

  const loop = startLoop({
    everyMs: renewMs,
    onError: (error) => log.error('renewing the sign of life failed', { error }),
    async tick() {
      await giveSignOfLife(sql, replica)
      const adopted = await adoptOrphans(sql, replica, limits.dispatchBatch)
      if (adopted.length > 0) log.info(`adopted ${adopted.length} runs of a replica that is gone`)
      const found = await openAttemptsOf(sql, [...adopted, ...(await unfollowed())], tellsInputs)
      for (const attempt of found) follower.follow(attempt)
      return adopted.length === limits.dispatchBatch
    },
  })

  /** Runs that are ours by the books, and that nobody here has followed for two ticks. */
  async function unfollowed(): Promise<RunId[]> {
    const missed = (await attemptsFollowedBy(sql, replica)).filter(
      ({ runId, attempt }) => !follower.isFollowed(handleOf(runId, attempt)) && !ender.has(runId),
    )
    const again = missed.filter(({ runId }) => suspects.has(runId)).map(({ runId }) => runId)
    suspects = new Set(missed.map(({ runId }) => runId))
    if (again.length > 0) log.warn(`${again.length} runs had no follower; following them again`)
    return again
  }

  return {
    stop: loop.stop,
    /** Lets other replicas take over at once. */
    leave: () => forgetReplica(sql, replica),
  }
}
