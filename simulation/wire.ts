// The connection between a simulated process and Postgres. Forwards the client's messages unread except for two things: the
// start of a statement, where a fault can happen, and the server's answer to it. Client and statements are the product's own;
// see
// https://www.postgresql.org/docs/current/protocol-message-formats.html.
import { EventEmitter } from 'node:events'
import net from 'node:net'

/**
 * A fault at a statement. `before`: the statement never reaches the server. `after`: the server performs it, and the answer is
 * lost.
 */
export type Fault =
  | { kind: 'crash'; when: 'before' | 'after' }
  | { kind: 'disconnect'; when: 'before' | 'after' }
  | { kind: 'pause' }

/** The process at the client's end of a wire. */
export interface Holder {
  /** Called at the start of each statement. */
  faultAt(statement: string): Fault | null
  /** The statement to send instead. */
  rewritten(statement: string): string
  /** The process is paused; `proceed` continues it. */
  paused(proceed: () => void): void
  /** The process has died with all its wires. */
  crashed(): void
  /** Only this wire is broken. Resolves when the server has noticed. */
  disconnected(wire: Wire): Promise<void>
  opened(wire: Wire): void
  /** Called when data is sent to the server. */
  asked(): void
}

const QUERY = 'Q'.charCodeAt(0)
const PARSE = 'P'.charCodeAt(0)
const BIND = 'B'.charCodeAt(0)
const SYNC = 'S'.charCodeAt(0)
const READY = 'Z'.charCodeAt(0)
const KEY = 'K'.charCodeAt(0)
const HEADER = 5

/** The address of a server. */
export type Address = { host: string; port: number } | { path: string }

/** The part of a socket that postgres.js uses. */
export class Wire extends EventEmitter {
  readyState: 'open' | 'closed' = 'open'
  /** Process id of the server's backend, once known. */
  pid: number | null = null
  readonly #server: net.Socket
  readonly #holder: Holder
  readonly #statements = new Map<string, string>()
  #fromClient: Buffer = Buffer.alloc(0)
  #fromServer: Buffer = Buffer.alloc(0)
  #hasStarted = false
  #isInStatement = false
  #isPaused = false
  #mayPass = false
  /** Statements, and the startup, that the server has not answered. */
  #unanswered = 1
  /** The fault that happens when the server has answered everything. Until then no data is forwarded. */
  #last: Fault | null = null

  constructor(address: Address, holder: Holder) {
    super()
    this.#holder = holder
    this.#server = net.connect(address)
    if ('port' in address) this.#server.setNoDelay(true)
    this.#server.on('data', (data: Buffer) => this.#receive(data))
    this.#server.on('error', () => this.#close())
    this.#server.on('close', () => this.#close())
    holder.opened(this)
  }

  write(data: Uint8Array | string, done?: () => void): boolean {
    const bytes = Buffer.from(data as Uint8Array)
    this.#fromClient = this.#fromClient.length === 0 ? bytes : Buffer.concat([this.#fromClient, bytes])
    this.#send()
    done?.()
    return true
  }

  end(data?: Uint8Array): void {
    if (data !== undefined && this.readyState === 'open') this.#server.end(data)
    else this.#server.end()
  }

  destroy(): void {
    this.#server.destroy()
  }

  pause(): void {}
  resume(): void {}
  setKeepAlive(): void {}

  /** Cuts the connection between both ends. The client gets no event, because its process is dead. */
  sever(): void {
    this.readyState = 'closed'
    this.#server.removeAllListeners()
    this.#server.on('error', () => {})
    this.#server.destroy()
  }

  #close(): void {
    if (this.readyState === 'closed') return
    this.readyState = 'closed'
    this.emit('close', false)
  }

  #send(): void {
    const out: Uint8Array[] = []
    while (!this.#isPaused && this.#last === null && this.readyState === 'open') {
      const message = this.#nextMessage()
      if (message === null) break
      const type = this.#hasStarted ? message[0] : undefined
      const begins = !this.#isInStatement && (type === PARSE || type === BIND || type === QUERY)
      if (begins && !this.#mayPass && this.#isHeld(message, out)) return
      this.#mayPass = false
      this.#fromClient = this.#fromClient.subarray(message.length)
      out.push(type === PARSE || type === QUERY ? this.#rewrite(message) : message)
      if (begins) this.#isInStatement = true
      if (type === SYNC || type === QUERY) {
        this.#isInStatement = false
        this.#unanswered += 1
        if (this.#ending !== null) this.#last = this.#ending
      }
      this.#hasStarted = true
    }
    this.#deliver(out)
  }

  #deliver(messages: Uint8Array[]): void {
    if (messages.length === 0) return
    this.#holder.asked()
    this.#server.write(messages.length === 1 ? (messages[0] as Uint8Array) : Buffer.concat(messages))
  }

  /** The fault that happens after the answer to the current statement. */
  #ending: Fault | null = null

  /** True: the statement is not sent now. */
  #isHeld(message: Buffer, out: Uint8Array[]): boolean {
    const fault = this.#holder.faultAt(this.#textOf(message))
    if (fault === null) return false
    if (fault.kind !== 'pause' && fault.when === 'after') {
      this.#ending = fault
      return false
    }
    this.#deliver(out)
    if (fault.kind === 'pause') {
      this.#isPaused = true
      this.#holder.paused(() => {
        this.#isPaused = false
        this.#mayPass = true
        this.#send()
      })
    } else this.#fail(fault)
    return true
  }

  #fail(fault: Fault): void {
    if (fault.kind === 'crash') {
      this.#holder.crashed()
      return
    }
    this.sever()
    void this.#holder.disconnected(this).then(() => this.emit('close', false))
  }

  #nextMessage(): Buffer | null {
    const bytes = this.#fromClient
    const prefix = this.#hasStarted ? 1 : 0
    if (bytes.length < prefix + 4) return null
    const length = prefix + bytes.readInt32BE(prefix)
    return bytes.length < length ? null : bytes.subarray(0, length)
  }

  #textOf(message: Buffer): string {
    if (message[0] === QUERY) return textAt(message, HEADER).text
    const first = textAt(message, HEADER)
    if (message[0] === BIND) return this.#statements.get(textAt(message, first.end).text) ?? ''
    const { text } = textAt(message, first.end)
    this.#statements.set(first.text, text)
    return text
  }

  #rewrite(message: Buffer): Buffer {
    const start = message[0] === QUERY ? HEADER : textAt(message, HEADER).end
    const { text, end } = textAt(message, start)
    const instead = this.#holder.rewritten(text)
    if (instead === text) return message
    const changed = Buffer.concat([
      message.subarray(0, start),
      Buffer.from(`${instead}\0`),
      message.subarray(end),
    ])
    changed.writeInt32BE(changed.length - 1, 1)
    return changed
  }

  #receive(data: Buffer): void {
    const bytes = this.#fromServer.length === 0 ? data : Buffer.concat([this.#fromServer, data])
    let at = 0
    while (bytes.length >= at + HEADER) {
      const length = 1 + bytes.readInt32BE(at + 1)
      if (bytes.length < at + length) break
      if (bytes[at] === READY) this.#unanswered -= 1
      if (bytes[at] === KEY) this.pid = bytes.readInt32BE(at + HEADER)
      at += length
    }
    this.#fromServer = bytes.subarray(at)
    const fault = this.#last
    if (fault === null) this.emit('data', data)
    else if (this.#unanswered === 0) this.#fail(fault)
  }
}

/** Reads a text that ends with a zero byte; `end` is the position after it. */
function textAt(bytes: Buffer, start: number): { text: string; end: number } {
  const end = bytes.indexOf(0, start)
  return { text: bytes.toString('utf8', start, end), end: end + 1 }
}
