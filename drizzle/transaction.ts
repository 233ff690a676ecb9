// postgres.js 3.4.9 answers the loss of a transaction's connection with `rollback` on that connection: the write fails
// outside of any promise, which ends the process. It also sends a statement that follows the end of its transaction on
// whatever that connection does by then. And a BEGIN that is pipelined behind other statements may lose its owner. Transactions
// begun here do none of this.
import { isOfConnection } from './errors.ts'
import type { Sql, SqlTx } from './sql.ts'

/** By then postgres.js knows that a connection of its own is gone. */
const NOTICED_MS = 1_000
const pause = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms))

type Work = (tx: SqlTx) => unknown

/**
 * The pool `statements`, whose transactions have connections of their own, those of `transactions`. They reject once, as
 * lost, when their connection ends.
 */
export function withTransactions(statements: Sql, transactions: Sql): Sql {
  const begin = transactions.begin.bind(transactions) as (options: string, work: Work) => Promise<unknown>

  function beginSafely(...args: [work: Work] | [options: string, work: Work]): Promise<unknown> {
    const [options, work] = args.length === 1 ? ['', args[0]] : args
    const state = { hasEnded: false }
    const { promise: over, resolve: end } = Promise.withResolvers<void>()
    const ended = begin(options, async (tx) => {
      try {
        const made = work(guarded(tx, state))
        return await (Array.isArray(made) ? Promise.all(made) : made)
      } catch (error) {
        // postgres.js notices the loss itself, and rejects the transaction for it. An error that only looks like one (an
        // object store's connection was reset) must still roll back, so this waits a moment, not for ever.
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

  const end: Sql['end'] = async (options) => {
    await Promise.all([statements.end(options), transactions.end(options)])
  }
  return new Proxy(statements, {
    get(target, name, receiver) {
      if (name === 'begin') return beginSafely
      return name === 'end' ? end : Reflect.get(target, name, receiver)
    },
  })
}

/** A transaction that refuses statements once it has ended. */
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

/** Performs `work` in a transaction and answers with what it returns; rejects with what it throws, and rolls back. */
export async function inTransaction<T>(sql: Sql, work: (tx: SqlTx) => Promise<T>): Promise<T> {
  // In an object, because `begin` treats an array as statements to wait for.
  const { value } = await sql.begin(async (tx) => ({ value: await work(tx) }))
  return value
}
