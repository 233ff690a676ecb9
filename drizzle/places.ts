// A pool's places. The client's own queue cannot be left: whoever waits there for a connection to a database that is away
// waits for one failure after the other. Here whoever waits is told by the first of them that is of more than one connection.
import { isAway, isOfConnection } from './errors.ts'
import type { Sql } from './sql.ts'

type Work = (tx: unknown) => unknown

/** What the client calls when a statement is to be sent, and when it is over. */
interface Statement extends Promise<unknown> {
  handler(statement: Statement): void
  resolve(rows: unknown): void
  reject(error: unknown): void
  cancelled: unknown
}

interface Waiting {
  start(): void
  refuse(error: unknown): void
}

/** Instead of why a connection was lost: there was nothing to ask any more. */
const NOT_ASKED = Symbol('not asked')

/** The same client: no more statements and transactions are under way than it has connections. */
export function withPlaces(client: Sql, connections: number): Sql {
  let free = connections
  const waiting: Waiting[] = []
  /** How often the database has answered: by that one connection that was lost is told from a database that is away. */
  let answered = 0
  /** When a connection was last lost: whoever begins after it, with no answer between, finds out what is to be had. */
  let answeredAtLoss = -1

  /** Calls `start` with what is to be called at the end; `lost` is why a connection was lost or could not be had. */
  function enter(start: (leave: (lost: unknown) => void) => void, refuse: (error: unknown) => void) {
    const begin = () => {
      const before = answered
      const findsOut = answeredAtLoss === answered
      let isOver = false
      start((lost) => {
        // A client that is ended says so twice.
        if (isOver) return
        isOver = true
        if (lost === null) answered++
        else if (lost !== NOT_ASKED) {
          // One connection may be lost for a reason of its own.
          if (answered === before && (findsOut || isAway(lost)))
            for (const one of waiting.splice(0)) one.refuse(lost)
          answeredAtLoss = answered
        }
        // Not before the client has put the connection where it belongs.
        if (lost === null) queueMicrotask(leave)
        else setImmediate(leave)
      })
    }
    if (free === 0) waiting.push({ start: begin, refuse })
    else {
      free--
      begin()
    }
  }

  function leave() {
    const next = waiting.shift()
    if (next === undefined) free++
    else next.start()
  }

  function placed<T>(made: T): T {
    if (!(made instanceof Promise)) return made
    const statement = made as unknown as Statement
    const { handler, resolve, reject } = statement
    statement.handler = () =>
      enter((leave) => {
        // The client has told whoever cancelled it while it waited, and would not tell anybody again.
        if (statement.cancelled) return leave(NOT_ASKED)
        statement.resolve = (rows) => {
          resolve(rows)
          leave(null)
        }
        statement.reject = (error) => {
          reject(error)
          leave(isOfConnection(error) ? error : null)
        }
        handler(statement)
      }, reject)
    return Object.assign(made, { cursor: keepsItsConnection })
  }

  const begin = client.begin.bind(client) as (options: string, work: Work) => Promise<unknown>

  function beginPlaced(...args: [work: Work] | [options: string, work: Work]): Promise<unknown> {
    const [options, work] = args.length === 1 ? ['', args[0]] : args
    return new Promise((resolve, reject) =>
      enter((leave) => {
        let hasBegun = false
        begin(options, (tx) => {
          hasBegun = true
          return work(tx)
        }).then(
          (value) => {
            resolve(value)
            leave(null)
          },
          (error) => {
            reject(error)
            // What a transaction asks of others may be lost, too.
            leave((hasBegun ? isOfClient(error) : isOfConnection(error)) ? error : null)
          },
        )
      }, reject),
    )
  }

  return new Proxy(client, {
    apply: (target, self, args) => placed(Reflect.apply(target, self, args)),
    get(target, name, receiver) {
      if (name === 'begin') return beginPlaced
      if (name === 'reserve') return keepsItsConnection
      if (name === 'unsafe') return (...args: Parameters<Sql['unsafe']>) => placed(target.unsafe(...args))
      return Reflect.get(target, name, receiver)
    },
  })
}

/** What has no end that a place could be left at. */
function keepsItsConnection(): never {
  throw new Error('a cursor, or a connection of its own, is had in a transaction: use one')
}

const isOfClient = (error: unknown) =>
  error instanceof Error && 'code' in error && String(error.code).startsWith('CONNECTION_')
