// The processes of the installation, as Postgres knows them.
import type { Sql } from '../../drizzle/client.ts'
import { computed, select } from '../../drizzle/rows.ts'
import { replicas, runAttempts } from '../../drizzle/schema/index.ts'
import type { ReplicaList } from './schema.ts'

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

export type ReplicaService = ReturnType<typeof makeReplicaService>

/** `runnerUrls`: the runners of the configuration. */
export const makeReplicaService = ({ sql, runnerUrls }: { sql: Sql; runnerUrls: readonly string[] }) => ({
  async list(): Promise<ReplicaList> {
    const [known, busy] = await Promise.all([
      select(sql, REPLICA)`from replica order by alive desc, name`,
      select(sql, RUNNER)`from run_attempt where state = 'open' group by runner_url`,
    ])
    const attempts = new Map(busy.map((runner) => [runner.address, runner.attempts]))
    const addresses = [...new Set([...runnerUrls, ...attempts.keys()])].toSorted()
    return {
      replicas: known.map(({ aliveUntil, ...replica }) => ({
        ...replica,
        alive_until: aliveUntil.toISOString(),
      })),
      runners: addresses.map((address) => ({ address, attempts: attempts.get(address) ?? 0 })),
    }
  },
})
