// What lies between a simulated process and Postgres. It hands the messages of the client on unread but for two things:
// where a statement begins, so that something can happen just there, and when the server has answered it. The client is
// the product's own, so are the statements; see https://www.postgresql.org/docs/current/protocol-message-formats.html.
import { EventEmitter } from 'node:events'
import net from 'node:net'

/** What happens at a statement. `before`: it never reaches the server. `after`: it does, and the answer is lost. */
export type Fault =
  | { kind: 'crash'; when: 'before' | 'after' }
  | { kind: 'disconnect'; when: 'before' | 'after' }
  | { kind: 'pause' }

/** The process at the client's end of a wire. */
export interface Holder {
  /** Asked at the beginning of each statement. */
  faultAt(statement: string): Fault | null
  /** What is sent in the place of a statement. */
  rewritten(statement: string): string
  /** The process is stopped; `proceed` lets it go on where it was. */
  paused(proceed: () => void): void
  /** The process is gone, and with it every wire it held. */
  crashed(): void
  /** This wire is broken, and nothing else. Resolves when the server has noticed. */
  disconnected(wire: Wire): Promise<void>
  opened(wire: Wire): void
  /** Something is on its way to the server. */
  asked(): void
}

const QUERY = 'Q'.charCodeAt(0)
const PARSE = 'P'.charCodeAt(0)
const BIND = 'B'.charCodeAt(0)
const SYNC = 'S'.charCodeAt(0)
const READY = 'Z'.charCodeAt(0)
const KEY = 'K'.charCodeAt(0)
const HEADER = 5

/** Where a server listens. */
export type Address = { host: string; port: number } | { path: string }

/** As much of a socket as postgres.js asks of one. */
export class Wire extends EventEmitter {
  readyState: 'open' | 'closed' = 'open'
  /** Of the backend at the other end, once it is known. */
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
  /** Statements, and the beginning, that the server has still to answer. */
  #unanswered = 1
  /** Happens when the server has answered everything; until then nothing goes either way. */
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

  /** Neither end hears of the other again. The client is not told: its process is gone. */
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
    this.#pass(out)
  }

  #pass(messages: Uint8Array[]): void {
    if (messages.length === 0) return
    this.#holder.asked()
    this.#server.write(messages.length === 1 ? (messages[0] as Uint8Array) : Buffer.concat(messages))
  }

  /** What will happen once the statement under way has been answered. */
  #ending: Fault | null = null

  /** True: the statement does not go to the server now. */
  #isHeld(message: Buffer, out: Uint8Array[]): boolean {
    const fault = this.#holder.faultAt(this.#textOf(message))
    if (fault === null) return false
    if (fault.kind !== 'pause' && fault.when === 'after') {
      this.#ending = fault
      return false
    }
    this.#pass(out)
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

/** A text that ends in a zero byte, and where the next one begins. */
function textAt(bytes: Buffer, start: number): { text: string; end: number } {
  const end = bytes.indexOf(0, start)
  return { text: bytes.toString('utf8', start, end), end: end + 1 }
}
