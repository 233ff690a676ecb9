// Transactions without three faults of postgres.js 3.4.9:
// - After the loss of a transaction's connection, it sends `rollback` on that connection. The write fails
//   outside of any promise and ends the process.
// - It sends a statement that follows the end of its transaction, whatever the connection does by then.
// - A BEGIN that is pipelined behind other statements may lose its owner.
import { isOfConnection } from './errors.ts'
import type { Sql, SqlTx } from './sql.ts'

/** postgres.js notices a lost connection within this time. */
const NOTICED_MS = 1_000
const pause = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms))

type TransactionBody = (tx: SqlTx) => unknown

/**
 * Returns the pool `statements`, whose transactions use the connections of `transactions`. A transaction whose connection ends
 * rejects once, with the error of the lost connection.
 */
export function withTransactions(statements: Sql, transactions: Sql): Sql {
  const begin = transactions.begin.bind(transactions) as (
    options: string,
    work: TransactionBody,
  ) => Promise<unknown>

  function beginSafely(
    ...args: [work: TransactionBody] | [options: string, work: TransactionBody]
  ): Promise<unknown> {
    const [options, work] = args.length === 1 ? ['', args[0]] : args
    const state = { hasEnded: false }
    const { promise: settled, resolve: settle } = Promise.withResolvers<void>()
    const ended = begin(options, async (tx) => {
      try {
        const result = work(guarded(tx, state))
        return await (Array.isArray(result) ? Promise.all(result) : result)
      } catch (error) {
        // postgres.js notices a lost connection and rejects the transaction itself. Other errors only look like a lost
        // connection, such as a reset connection to the object store. These must roll back, so the wait is limited.
        if (isOfConnection(error)) await Promise.race([settled, pause(NOTICED_MS)])
        if (state.hasEnded) return new Promise<never>(() => {})
        throw error
      }
    })
    const markEnded = () => {
      state.hasEnded = true
      settle()
    }
    ended.then(markEnded, markEnded)
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

/** A transaction that refuses statements after its end. */
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

/** Performs `work` in a transaction and returns its result. Rolls back and rethrows when `work` throws. */
export async function inTransaction<T>(sql: Sql, work: (tx: SqlTx) => Promise<T>): Promise<T> {
  // An object, because `begin` would treat an array as statements to await.
  const { value } = await sql.begin(async (tx) => ({ value: await work(tx) }))
  return value
}
