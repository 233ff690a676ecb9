// The client waits for an answer for ever, and the server's own limits end nothing where the server is frozen or the network
// swallows what is sent. So a connection that owes an answer and says nothing is ended here, and whoever waits is told.
import net from 'node:net'

/** What whoever waits is told. Whether a commit that was under way has happened is then for the database to tell. */
export class ConnectionSilent extends Error {
  readonly code = 'CONNECTION_SILENT'
  constructor(silenceMs: number) {
    super(`the database has said nothing for ${silenceMs} ms`)
  }
}

/** A proxy with no database behind it takes connections, and ends them. The client would try again at once, for ever. */
class ConnectionUnheard extends Error {
  readonly code = 'CONNECT_ENDED'
  constructor() {
    super('the connection has ended before the database has said anything')
  }
}

/** What a server that works may take beyond its limit for a statement. */
const GRACE_MS = 2_000
/** Where the server has no such limit. */
const STATEMENT_MS = 120_000

/** How long a connection with these settings may say nothing while it owes an answer: longer than any statement may take. */
export const silenceOf = (settings: Record<string, string | number> = {}): number =>
  Number(settings.statement_timeout ?? STATEMENT_MS) + GRACE_MS

/** Of all the connections that carry it: while one of them hears something, the database works. */
export interface Pulse {
  /** By a clock that does not go backwards. */
  heardAt: number
  /** A database of which nothing was heard for this long does not work: nobody need be patient with it. */
  silenceMs: number
}

interface Watch {
  silenceMs: number
  pulse?: Pulse | undefined
  /** By the first that the server says, whatever it is. */
  onHeard?(): void
  onSilent?(): void
}

/** An option of the client: what it connects with. An address of several hosts has its turns. */
export function watched(how: Watch) {
  let attempts = 0
  return {
    socket({ host, port, path, ssl }: Address): net.Socket {
      const at = attempts++ % host.length
      const address = { host: host[at] ?? 'localhost', port: port[at] ?? 5432 }
      const socket = path ? net.connect({ path }) : net.connect(address)
      let isHeard = false
      socket.once('data', () => {
        isHeard = true
        how.onHeard?.()
      })
      socket.on('end', () => {
        if (!isHeard) socket.destroy(new ConnectionUnheard())
      })
      // What is encrypted tells nobody where an answer ends.
      if (!ssl) watch(socket, how)
      // By these the client names the server, in its errors and for the server's certificate.
      return Object.assign(socket, address)
    },
  }
}

interface Address {
  host: string[]
  port: number[]
  path?: string | false
  ssl?: unknown
}

/** The time is counted in parts: a process that was paused itself hears what has come meanwhile before it counts on. */
const PARTS = 8

function watch(socket: net.Socket, { silenceMs, pulse, onSilent }: Watch) {
  const answers = makeAnswers()
  const partMs = Math.min(silenceMs, pulse?.silenceMs ?? silenceMs) / PARTS
  let silentParts = 0
  const hasPulse = () => pulse !== undefined && performance.now() - pulse.heardAt < pulse.silenceMs
  const counting = setInterval(() => {
    silentParts = answers.areOwed() ? silentParts + 1 : 0
    const silentMs = (silentParts - 1) * partMs
    if (silentMs < (hasPulse() ? silenceMs : PARTS * partMs)) return
    onSilent?.()
    socket.destroy(new ConnectionSilent(silentMs))
  }, partMs)
  const write = socket.write.bind(socket) as (...args: unknown[]) => boolean
  socket.write = (bytes: unknown, ...rest: unknown[]) => {
    if (bytes instanceof Uint8Array) answers.asked(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length))
    return write(bytes, ...rest)
  }
  socket.on('data', (bytes: Buffer) => {
    silentParts = 0
    if (pulse !== undefined) pulse.heardAt = performance.now()
    answers.heard(bytes)
  })
  socket.on('close', () => clearInterval(counting))
}

const HEADER_BYTES = 5
const [SIMPLE_QUERY, SYNC, FLUSH] = [...Buffer.from('QSH')]
const [READY_FOR_QUERY, PARAMETERS_DESCRIBED] = [...Buffer.from('Zt')]

/** Which answers of the server are still to come, by the kinds of messages (PostgreSQL: Message Formats). */
export function makeAnswers() {
  /** In their order: `ready` ends what one question has, `described` comes before its second half is sent. */
  const owed: ('ready' | 'described')[] = []
  let hasBegun = false
  const header = Buffer.alloc(HEADER_BYTES)
  let headerBytes = 0
  let bodyBytes = 0

  function begins(kind: number | undefined) {
    if (kind === PARAMETERS_DESCRIBED && owed[0] === 'described') owed.shift()
    // A question that has failed at its first half ends so, too.
    if (kind === READY_FOR_QUERY) owed.splice(0, owed.indexOf('ready') + 1)
  }

  return {
    areOwed: () => owed.length > 0,

    /** Whole messages, as the client writes them. */
    asked(bytes: Buffer) {
      if (!hasBegun) {
        hasBegun = true
        owed.push('ready')
        return
      }
      for (let at = 0; at + HEADER_BYTES <= bytes.length; at += 1 + bytes.readUInt32BE(at + 1)) {
        const kind = bytes[at]
        if (kind === SIMPLE_QUERY || kind === SYNC) owed.push('ready')
        if (kind === FLUSH) owed.push('described')
      }
    },

    /** Bytes as they come. */
    heard(bytes: Buffer) {
      for (let at = 0; at < bytes.length; ) {
        if (bodyBytes > 0) {
          const passed = Math.min(bodyBytes, bytes.length - at)
          bodyBytes -= passed
          at += passed
          continue
        }
        header[headerBytes++] = bytes[at++] ?? 0
        if (headerBytes < HEADER_BYTES) continue
        headerBytes = 0
        bodyBytes = header.readUInt32BE(1) - 4
        begins(header[0])
      }
    },
  }
}
