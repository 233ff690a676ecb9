// postgres.js waits for an answer without a limit. The server's limits do not help when the server is frozen or the network
// drops packets. The supervisor watches the sockets of a database's pools and closes sockets that get no answer
// (docs/adr/0037-supervised-pools.md).
import net from 'node:net'
import { Duplex } from 'node:stream'
import postgres from 'postgres'

/** The connection was closed without an answer. A commit in progress may or may not have happened. */
class ConnectionSilent extends Error {
  readonly code = 'CONNECTION_SILENT'
  constructor() {
    super('no answer from Postgres: the connection was closed')
  }
}

/**
 * A proxy without a database accepts connections and closes them. Without this error, postgres.js would reconnect endlessly.
 */
class ConnectionClosedEarly extends Error {
  readonly code = 'CONNECT_ENDED'
  constructor() {
    super('the connection to Postgres was closed before any answer')
  }
}

/** Times in milliseconds; tests shorten them. */
export interface Patience {
  /** Time beyond the server's statement timeout before a single connection counts as silent. */
  graceMs: number
  /** After this waiting time of a connection, the supervisor starts a probe. */
  doubtMs: number
  /** The database counts as silent when a probe gets no answer in this time and no other connection receives data. */
  probeMs: number
}

const PATIENCE: Patience = { graceMs: 2_000, doubtMs: 1_000, probeMs: 8_000 }
/** Assumed statement timeout when the connections have none. */
const STATEMENT_MS = 120_000
/**
 * Time is counted in ticks of a timer, at most one per turn of the event loop. So a process that was paused reads its buffered
 * answers before they count as late.
 */
const TICKS_PER_DOUBT = 4

interface Connection {
  socket: net.Socket
  /** The value of `bytesWritten` when data last arrived. A higher value now means that an answer is outstanding. */
  writtenAtLastData: number
  waitingTicks: number
}

export interface Supervisor {
  /** postgres.js options for each pool of the database. */
  readonly options: {
    socket(address: Address): Duplex
    /** Seconds before postgres.js connects again. */
    backoff(tries: number): number
  }
  /** Call this after the pools have ended. */
  stop(): void
}

interface Address {
  host: string[]
  port: number[]
  path?: string | false
  ssl?: unknown
}

/** `statementMs` is the `statement_timeout` of these connections. */
export function startSupervisor(
  url: string,
  statementMs: number = STATEMENT_MS,
  { graceMs, doubtMs, probeMs }: Patience = PATIENCE,
): Supervisor {
  const tickMs = doubtMs / TICKS_PER_DOUBT
  const connections = new Set<Connection>()
  /** The number of data events on all connections. */
  let received = 0
  /** The reason why the database is away. New connections fail at once until a probe is answered. */
  let away: Error | null = null
  let probe: { client: postgres.Sql; ticks: number; receivedBefore: number } | null = null
  let attempts = 0

  function tick() {
    let isProbeNeeded = away !== null
    for (const connection of connections) {
      const isWaiting = connection.socket.bytesWritten > connection.writtenAtLastData
      connection.waitingTicks = isWaiting ? connection.waitingTicks + 1 : 0
      const waitedMs = (connection.waitingTicks - 1) * tickMs
      if (waitedMs >= (away === null ? statementMs + graceMs : doubtMs))
        connection.socket.destroy(new ConnectionSilent())
      else if (waitedMs >= doubtMs) isProbeNeeded = true
    }
    if (probe === null) {
      if (isProbeNeeded) startProbe()
    } else if (++probe.ticks * tickMs >= probeMs) {
      if (received === probe.receivedBefore) declareAway(new ConnectionSilent())
      endProbe()
    }
  }

  function startProbe() {
    const client = postgres(url, {
      max: 1,
      fetch_types: false,
      onnotice: () => {},
      connect_timeout: 10,
      // This documented option is missing in the types.
      ...{ socket: open },
    })
    const started = { client, ticks: 0, receivedBefore: received }
    probe = started
    const settle = (error?: unknown) => {
      if (probe !== started) return
      // A refusal also shows that the server answers.
      if (error === undefined || error instanceof postgres.PostgresError) away = null
      endProbe()
    }
    client`select 1`.then(() => settle(), settle)
  }

  function endProbe() {
    void probe?.client.end({ timeout: 0 })
    probe = null
  }

  function declareAway(error: Error) {
    away = error
    for (const { socket, waitingTicks } of connections) if (waitingTicks > 0) socket.destroy(error)
  }

  function connect(address: Address): Duplex {
    if (away !== null) return new RefusedConnection(away)
    const socket = open(address)
    const receivedBefore = received
    socket.on('error', (error) => {
      // This connection failed to open, and no other connection received data meanwhile. So the database counts as away, and
      // new connections fail at once.
      if (socket.bytesRead === 0 && received === receivedBefore && away === null) away = error
    })
    // TLS hides the answers and takes over the socket's listeners, so this connection is not supervised.
    if (address.ssl) return socket
    const connection = { socket, writtenAtLastData: 0, waitingTicks: 0 }
    connections.add(connection)
    socket.on('data', () => {
      received++
      connection.writtenAtLastData = socket.bytesWritten
      connection.waitingTicks = 0
    })
    socket.on('close', () => connections.delete(connection))
    return socket
  }

  /** Each attempt uses the next host of an address with several hosts. */
  function open({ host, port, path }: Address): net.Socket {
    const at = attempts++ % host.length
    const address = { host: host[at] ?? 'localhost', port: port[at] ?? 5432 }
    const socket = path ? net.connect({ path }) : net.connect(address)
    socket.once('end', () => {
      if (socket.bytesRead === 0) socket.destroy(new ConnectionClosedEarly())
    })
    // postgres.js uses `host` and `port` in error messages and to check the server's certificate.
    return Object.assign(socket, address)
  }

  const timer = setInterval(tick, tickMs)
  return {
    options: {
      socket: connect,
      backoff: (tries) => (away === null ? Math.min(1, 0.05 * 2 ** tries) : 0),
    },
    stop() {
      clearInterval(timer)
      endProbe()
      for (const { socket } of connections) socket.destroy()
    },
  }
}

/** Replaces a socket while the database is away. */
class RefusedConnection extends Duplex {
  readonly #reason: Error
  constructor(reason: Error) {
    super()
    this.#reason = reason
  }
  override _read() {}
  override _write(_chunk: unknown, _encoding: string, done: (error: Error) => void) {
    done(this.#reason)
  }
}
