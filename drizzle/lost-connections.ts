// postgres.js 3.4.9 ends a transaction whose connection is gone by saying `rollback` to that connection: the write fails
// outside of any promise, which ends the process, and leaves a connection that can never be opened again. The same
// happens to a statement that work sends after its transaction has ended. Neither reaches the client here.
import type { Sql, SqlTx } from './client.ts'

type Work = (tx: SqlTx) => unknown

/** The same client, whose transactions survive the loss of their connection: they reject, once, as lost. */
export function survivingLostConnections(client: Sql): Sql {
  const begin = client.begin.bind(client) as (options: string, work: Work) => Promise<unknown>

  function beginGuarded(...args: [work: Work] | [options: string, work: Work]): Promise<unknown> {
    const [options, work] = args.length === 1 ? ['', args[0]] : args
    const state = { hasEnded: false }
    const ended = begin(options, async (tx) => {
      try {
        const made = work(guarded(tx, state))
        return await (Array.isArray(made) ? Promise.all(made) : made)
      } catch (error) {
        // The client has been told of the loss itself, and rejects the transaction for it.
        if (isLost(error)) return new Promise<never>(() => {})
        throw error
      }
    })
    const end = () => {
      state.hasEnded = true
    }
    ended.then(end, end)
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

const isLost = (error: unknown) =>
  error instanceof Error &&
  'code' in error &&
  typeof error.code === 'string' &&
  /^(CONNECTION_|CONNECT_|ECONN|EPIPE|ETIMEDOUT)/.test(error.code)
