// postgres.js waits for an answer for ever, and the server's own limits end nothing where the server is frozen or the network
// drops packets. The supervisor watches the sockets of a database's pools and closes those that wait in vain (docs/adr/0047).
import net from 'node:net'
import { Duplex } from 'node:stream'
import postgres from 'postgres'

/** The connection was closed without an answer. Whether a commit that was under way has happened is unknown. */
export class ConnectionSilent extends Error {
  readonly code = 'CONNECTION_SILENT'
  constructor() {
    super('the database does not answer')
  }
}

/** A proxy without a database accepts connections and closes them; postgres.js by itself would reconnect for ever. */
class ConnectionUnheard extends Error {
  readonly code = 'CONNECT_ENDED'
  constructor() {
    super('the connection was closed before the database had said anything')
  }
}

/** Milliseconds; tests shorten them. */
export interface Patience {
  /** Beyond the server's own limit for a statement, before a single connection counts as silent. */
  graceMs: number
  /** A connection waits this long before the supervisor doubts the database. */
  doubtMs: number
  /** A probe without an answer, while no other connection receives anything either, means that the database is silent. */
  probeMs: number
}

const PATIENCE: Patience = { graceMs: 2_000, doubtMs: 1_000, probeMs: 8_000 }
/** Where the server has no limit for a statement. */
const STATEMENT_MS = 120_000
/**
 * Time is counted in ticks of a timer, at most one for each turn of the event loop: a process that was paused itself reads
 * the answers in its buffers before they count as late.
 */
const TICKS_PER_DOUBT = 4

interface Connection {
  socket: net.Socket
  /** `bytesWritten` when data last arrived: more has been written since, so an answer is outstanding. */
  writtenWhenHeard: number
  waitingTicks: number
}

export interface Supervisor {
  /** Options for each pool of the database. */
  readonly options: {
    socket(address: Address): Duplex
    /** Seconds before postgres.js connects again. */
    backoff(tries: number): number
  }
  /** To be called when the pools have ended. */
  stop(): void
}

interface Address {
  host: string[]
  port: number[]
  path?: string | false
  ssl?: unknown
}

/** `statementMs`: the `statement_timeout` of these connections. */
export function startSupervisor(
  url: string,
  statementMs: number = STATEMENT_MS,
  { graceMs, doubtMs, probeMs }: Patience = PATIENCE,
): Supervisor {
  const tickMs = doubtMs / TICKS_PER_DOUBT
  const connections = new Set<Connection>()
  /** Counts what has arrived on any connection. */
  let received = 0
  /** Why no connection is to be had: new ones fail at once, until a probe is answered. */
  let away: Error | null = null
  let probe: { client: postgres.Sql; ticks: number; receivedBefore: number } | null = null
  let attempts = 0

  function tick() {
    let isDoubted = away !== null
    for (const one of connections) {
      const isWaiting = one.socket.bytesWritten > one.writtenWhenHeard
      one.waitingTicks = isWaiting ? one.waitingTicks + 1 : 0
      const waitedMs = (one.waitingTicks - 1) * tickMs
      if (waitedMs >= (away === null ? statementMs + graceMs : doubtMs))
        one.socket.destroy(new ConnectionSilent())
      else if (waitedMs >= doubtMs) isDoubted = true
    }
    if (probe === null) {
      if (isDoubted) startProbe()
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
      // Documented, and missing from the types.
      ...{ socket: open },
    })
    const started = { client, ticks: 0, receivedBefore: received }
    probe = started
    const settle = (error?: unknown) => {
      if (probe !== started) return
      // A server that refuses says something, too.
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
      // A connection that could not be opened: what waits for the others need not find out one by one.
      if (socket.bytesRead === 0 && received === receivedBefore && away === null) away = error
    })
    // TLS hides the answers, and takes the socket's listeners over.
    if (address.ssl) return socket
    const connection = { socket, writtenWhenHeard: 0, waitingTicks: 0 }
    connections.add(connection)
    socket.on('data', () => {
      received++
      connection.writtenWhenHeard = socket.bytesWritten
      connection.waitingTicks = 0
    })
    socket.on('close', () => connections.delete(connection))
    return socket
  }

  /** An address of several hosts is tried host by host. */
  function open({ host, port, path }: Address): net.Socket {
    const at = attempts++ % host.length
    const address = { host: host[at] ?? 'localhost', port: port[at] ?? 5432 }
    const socket = path ? net.connect({ path }) : net.connect(address)
    socket.once('end', () => {
      if (socket.bytesRead === 0) socket.destroy(new ConnectionUnheard())
    })
    // postgres.js names the server by these in its errors, and checks the server's certificate by them.
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

/** Takes the place of a socket while the database is away. */
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
