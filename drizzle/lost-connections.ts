// postgres.js 3.4.9 ends a transaction whose connection is gone by saying `rollback` to that connection: the write fails
// outside of any promise, which ends the process, and leaves a connection that can never be opened again. The same
// happens to a statement that work sends after its transaction has ended. Neither reaches the client here.

import { isOfConnection } from './errors.ts'
import type { Sql, SqlTx } from './sql.ts'

/**
 * A beginning that is written at once, because it is longer than what postgres.js collects. Otherwise it is collected for
 * good after a connection was lost with something still to be written: that write was given up, and the client goes on
 * waiting for it. The server hears the old bytes first, refuses them, and is asked again.
 */
export const AT_ONCE = { options: ' '.repeat(1_024) }

/** By then the client knows that a connection of its own is gone. */
const NOTICED_MS = 1_000
const pause = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms))

type Work = (tx: SqlTx) => unknown

/** The same client, whose transactions survive the loss of their connection: they reject, once, as lost. */
export function survivingLostConnections(client: Sql): Sql {
  const begin = client.begin.bind(client) as (options: string, work: Work) => Promise<unknown>

  function beginGuarded(...args: [work: Work] | [options: string, work: Work]): Promise<unknown> {
    const [options, work] = args.length === 1 ? ['', args[0]] : args
    const state = { hasEnded: false }
    const { promise: over, resolve: end } = Promise.withResolvers<void>()
    const ended = begin(options, async (tx) => {
      try {
        const made = work(guarded(tx, state))
        return await (Array.isArray(made) ? Promise.all(made) : made)
      } catch (error) {
        // The client notices the loss itself, and rejects the transaction for it. An error that only looks like one (an
        // object store's connection was reset) must still roll back: so the client is given a moment, not for ever.
        if (isOfConnection(error)) await Promise.race([over, pause(NOTICED_MS)])
        if (state.hasEnded) return new Promise<never>(() => {})
        throw error
      }
    })
    const noticed = () => {
      state.hasEnded = true
      end()
    }
    ended.then(noticed, noticed)
    return ended
  }

  return Object.assign(client, { begin: beginGuarded })
}

/** A transaction that can be asked nothing once it has ended. */
function guarded(tx: SqlTx, state: { hasEnded: boolean }): SqlTx {
  const check = () => {
    if (state.hasEnded) throw new Error('the transaction of this statement has ended')
  }
  return new Proxy(tx, {
    apply(target, self, args) {
      check()
      return Reflect.apply(target, self, args)
    },
    get(target, name, receiver) {
      if (name === 'unsafe' || name === 'savepoint') check()
      return Reflect.get(target, name, receiver)
    },
  })
}
