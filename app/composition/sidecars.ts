// The clients of the runners and query services.
import { makeDiskFloor } from '../../lake/disk-floor.ts'
import { limits } from '../core/limits.ts'
import { type Readiness, weakest } from '../health/service.ts'
import { queryAt, runnerAt, type SidecarAccess } from '../rpc/clients.ts'
import { makePool, type Pool } from '../rpc/pool.ts'
import { makeRunnerPort } from '../rpc/runner-port.ts'
import type { ServiceParts } from './parts.ts'

const MEMORY_MS = 5_000

export type Sidecars = ReturnType<typeof makeSidecars>

/** Clients of the runners and query services in the configuration. */
export function makeSidecars({ config, metrics }: ServiceParts) {
  const access: SidecarAccess = {
    token: config.sidecarToken,
    tokenUrls: config.sidecarTokenUrls,
    publicUrl: config.publicUrl,
  }
  const queryPool = (name: string, urls: string[]) =>
    makePool(
      name,
      urls.map((url) => queryAt(url, metrics.rpcEnded, access)),
    )
  const runnerUrls = config.runnerUrls ?? []
  const runners = makePool(
    'runner',
    runnerUrls.map((url) => runnerAt(url, metrics.rpcEnded, access)),
  )
  return {
    runners,
    runner: makeRunnerPort(runners),
    /** Clients of the same runners: runners answer previews through the interface of the query service. */
    previews: queryPool('runner', runnerUrls),
    queries: config.queryUrls === null ? null : queryPool('query service', config.queryUrls),
    describePython: async (signal: AbortSignal) =>
      weakest(
        await runners.callAll(async (runner) => {
          const { sandbox, pythonVersion: version } = await runner.describeRunner({}, { signal })
          return { sandbox, version }
        }),
      ),
  }
}

/** Reads the memory of engines at intervals, because a scrape of the metrics must not wait for sidecars. */
export function watchEngineMemory({ metrics }: ServiceParts, { runners, queries }: Sidecars) {
  async function read(kind: 'runner' | 'query', pool: Pick<Pool<never>, 'check' | 'engineMemories'>) {
    // A pool without a serving member rejects, but its members have reported what they could.
    await pool.check(AbortSignal.timeout(limits.readinessTimeoutMs)).catch(() => {})
    for (const [index, memory] of pool.engineMemories().entries()) {
      // The addresses of sidecars are no labels, because everyone may read the metrics.
      const labels = { part: `${kind}-${index + 1}` }
      const { engineMemory, engineMemoryLimit, engineMemoryFullest } = metrics
      if (memory === null)
        for (const gauge of [engineMemory, engineMemoryLimit, engineMemoryFullest]) gauge.remove(labels)
      else {
        engineMemory.set(labels, memory.bytes)
        engineMemoryLimit.set(labels, memory.limitBytes)
        engineMemoryFullest.set(labels, memory.fullest)
      }
    }
  }
  return setInterval(() => {
    void read('runner', runners)
    if (queries !== null) void read('query', queries)
  }, MEMORY_MS)
}

/** Reports why healthy parts start no new work, such as a lack of disk space. */
export function makeShortages({ config: { store } }: ServiceParts, { runners }: Sidecars) {
  const storeFloor = store.kind === 'disk' ? makeDiskFloor(store.root, store.floorBytes ?? null) : null
  return async (): Promise<Readiness['details']> => {
    const [runs, files] = [runners.waitsFor(), await storeFloor?.shortage()]
    return {
      ...(runs !== null && { runner: `runs wait: ${runs}` }),
      ...(files && { s3: `uploads are refused: ${files}` }),
    }
  }
}
