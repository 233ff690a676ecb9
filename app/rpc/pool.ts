import { Code, ConnectError } from '@connectrpc/connect'
import { unavailable } from '../core/errors.ts'
import {
  ENGINE_SANDBOXES,
  type EngineMemory,
  type EngineSandbox,
  isRefusedCaller,
  type Remote,
} from './clients.ts'

/** Several equal services, called in turn. A service that cannot be reached is skipped. */
export interface Pool<Service> {
  /** Returns the first answer. Throws 503 when no service can be reached; rethrows the refusal of a service. */
  call<Answer>(ask: (service: Service) => Promise<Answer>): Promise<Answer>
  /** The answers of all services that answer. */
  callAll<Answer>(ask: (service: Service) => Promise<Answer>): Promise<Answer[]>
  /** Resolves when one service is serving, to the weakest engine sandbox that any service has reported. */
  check(signal: AbortSignal): Promise<EngineSandbox | null>
  /** Why new work waits at one of the services, as of the last check; null: no work waits. */
  waitsFor(): string | null
  /** The memory of the engines of each service, in the order of the configuration, as of the last check; null: unknown. */
  engineMemories(): (EngineMemory | null)[]
}

export function makePool<Service>(name: string, remotes: readonly Remote<Service>[]): Pool<Service> {
  let turn = 0
  const sandboxes = new Map<string, EngineSandbox | null>()
  return {
    async call(ask) {
      turn += 1
      let last: unknown
      for (let n = 0; n < remotes.length; n++) {
        const remote = remotes[(turn + n) % remotes.length]
        if (remote === undefined) continue
        try {
          return await ask(remote.service)
        } catch (error) {
          if (!isUnreachable(error)) throw error
          last = error
        }
      }
      throw unavailable(name, last)
    },
    async callAll(ask) {
      const results = await Promise.allSettled(remotes.map(({ service }) => ask(service)))
      return results.flatMap((result) => (result.status === 'fulfilled' ? [result.value] : []))
    },
    waitsFor: () => remotes.map((remote) => remote.waitsFor?.() ?? null).find((why) => why !== null) ?? null,
    engineMemories: () => remotes.map((remote) => remote.engineMemory?.() ?? null),
    async check(signal) {
      await Promise.any(
        remotes.map(async (remote) => {
          sandboxes.set(remote.url, await remote.check(signal))
        }),
      )
      const reported = [...sandboxes.values()]
      return ENGINE_SANDBOXES.find((sandbox) => reported.includes(sandbox)) ?? null
    },
  }
}

/** A failed connection has no protocol code, so its code is Unknown. A service that refuses this API is of no use either. */
function isUnreachable(error: unknown): boolean {
  const { code } = ConnectError.from(error)
  return code === Code.Unavailable || code === Code.Unknown || isRefusedCaller(code)
}
