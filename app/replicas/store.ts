import type { Sql } from '../../drizzle/client.ts'
import { computed, select } from '../../drizzle/rows.ts'
import { runAttempts } from '../../drizzle/schema/run.ts'
import { replicas } from '../../drizzle/schema/system.ts'

// A row is one life of a replica's dispatcher: `process:life`. Roles are held by the process.
const REPLICA = {
  name: replicas.name,
  aliveUntil: replicas.aliveUntil,
  alive: computed<boolean>('replica.alive_until > clock_timestamp()'),
  leads: computed<string[]>(`array(
    select role from leader where holder = split_part(replica.name, ':', 1) and until > clock_timestamp() order by role)`),
  attempts: computed<number>('(select count(*)::int from run where follower = replica.name)'),
}
const RUNNER = { address: runAttempts.runnerUrl, attempts: computed<number>('count(*)::int') }

/** Living replicas first. */
export const knownReplicas = (sql: Sql) => select(sql, REPLICA)`from replica order by alive desc, name`

export const busyRunners = (sql: Sql) => select(sql, RUNNER)`
  from run_attempt where state = 'open' group by runner_url`
