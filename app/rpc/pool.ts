import { Code, ConnectError } from '@connectrpc/connect'
import { unavailable } from '../core/errors.ts'
import { ENGINE_SANDBOXES, type EngineSandbox, isRefusedCaller, type Remote } from './clients.ts'

/** Several equal services, asked in turn; one that cannot be reached is passed over. */
export interface Pool<Service> {
  /** The first answer. 503 when none can be reached; what a service itself refuses is thrown as it is. */
  call<Answer>(ask: (service: Service) => Promise<Answer>): Promise<Answer>
  /** What each that answers says. */
  askAll<Answer>(ask: (service: Service) => Promise<Answer>): Promise<Answer[]>
  /** Resolves when one of them is serving, to the weakest of the walls that engines run behind, as far as they have told. */
  check(signal: AbortSignal): Promise<EngineSandbox | null>
  /** Why new work waits at one of them, as of the last check; null: it waits nowhere. */
  waitsFor(): string | null
}

export function makePool<Service>(name: string, remotes: readonly Remote<Service>[]): Pool<Service> {
  let turn = 0
  const walls = new Map<string, EngineSandbox | null>()
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
    async askAll(ask) {
      const asked = await Promise.allSettled(remotes.map(({ service }) => ask(service)))
      return asked.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []))
    },
    waitsFor: () => remotes.map((remote) => remote.waitsFor?.() ?? null).find((why) => why !== null) ?? null,
    async check(signal) {
      await Promise.any(
        remotes.map(async (remote) => {
          walls.set(remote.url, await remote.check(signal))
        }),
      )
      const told = [...walls.values()]
      return ENGINE_SANDBOXES.find((sandbox) => told.includes(sandbox)) ?? null
    },
  }
}

/** Unavailable says so itself; a failed connection has no code of the protocol; one that refuses this API is of no use either. */
function isUnreachable(error: unknown): boolean {
  const { code } = ConnectError.from(error)
  return code === Code.Unavailable || code === Code.Unknown || isRefusedCaller(code)
}
