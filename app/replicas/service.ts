// The processes of the installation, as Postgres knows them.
import type { Sql } from '../../drizzle/client.ts'
import type { ReplicaList } from './schema.ts'
import { busyRunners, knownReplicas } from './store.ts'

export type ReplicaService = ReturnType<typeof makeReplicaService>

/** `runnerUrls`: the runners of the configuration. */
export const makeReplicaService = ({ sql, runnerUrls }: { sql: Sql; runnerUrls: readonly string[] }) => ({
  async list(): Promise<ReplicaList> {
    const [known, busy] = await Promise.all([knownReplicas(sql), busyRunners(sql)])
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
