import { closeSync, readSync } from 'node:fs'
import { endianness } from 'node:os'
import { openLibrary, Unavailable } from '../../sandbox/kernel.ts'

// The kernel reports which files of a directory are opened, by any process and any library (inotify). A hard link in another
// directory is another name, so attempts that read the same cached file do not see each other.

/** The kernel dropped reports, because they were not read in time. */
export class ReportsLost extends Error {}

/** Reads the reports this often, so that the kernel's queue of 16,384 reports stays short. */
const READ_EVERY_MS = 50
const BUFFER_BYTES = 65_536

const IN_OPEN = 0x20
const IN_ONLYDIR = 0x0100_0000
const IN_ISDIR = 0x4000_0000
const IN_Q_OVERFLOW = 0x4000
const IN_NONBLOCK = 0o4000
const IN_CLOEXEC = 0o2000000
/** A report has four numbers of 32 bits (watch, mask, cookie, length of the name), and then the name with zeros at its end. */
const HEAD_BYTES = 16

export class OpenedFiles {
  readonly #queue: number
  readonly #addWatch: ReturnType<typeof openInotify>['inotify_add_watch']
  readonly #directories = new Map<number, string>()
  readonly #opened = new Map<string, Set<string>>()
  readonly #timer: NodeJS.Timeout
  #hasLost = false

  /** Throws Unavailable if this machine does not report opened files. */
  constructor() {
    const { inotify_init1: init, inotify_add_watch: add } = openInotify()
    this.#addWatch = add
    this.#queue = init(IN_NONBLOCK | IN_CLOEXEC)
    if (this.#queue < 0) throw new Unavailable('inotify: no more instances (fs.inotify.max_user_instances)')
    this.#timer = setInterval(() => this.#read(), READ_EVERY_MS)
  }

  /** Reports the files of the directory that are opened from now on. Throws Unavailable. */
  watch(directory: string): void {
    const watch = this.#addWatch(this.#queue, Buffer.from(`${directory}\0`), IN_OPEN | IN_ONLYDIR)
    if (watch < 0) throw new Unavailable('inotify: no more watches (fs.inotify.max_user_watches)')
    this.#directories.set(watch, directory)
    if (!this.#opened.has(directory)) this.#opened.set(directory, new Set())
  }

  /** The names of the files of the directory that were opened so far. Throws ReportsLost. */
  in(directory: string): ReadonlySet<string> {
    this.#read()
    if (this.#hasLost) throw new ReportsLost('reports about opened files were lost')
    return this.#opened.get(directory) ?? new Set()
  }

  close(): void {
    clearInterval(this.#timer)
    closeSync(this.#queue)
  }

  #read(): void {
    const buffer = Buffer.alloc(BUFFER_BYTES)
    for (let bytes = this.#fill(buffer); bytes > 0; bytes = this.#fill(buffer)) {
      for (let at = 0; at < bytes; ) {
        const mask = int32(buffer, at + 4)
        const end = at + HEAD_BYTES + int32(buffer, at + 12)
        const [name = ''] = buffer.toString('utf8', at + HEAD_BYTES, end).split('\0', 1)
        if (mask & IN_Q_OVERFLOW) this.#hasLost = true
        const directory = this.#directories.get(int32(buffer, at))
        if (directory !== undefined && !(mask & IN_ISDIR)) this.#opened.get(directory)?.add(name)
        at = end
      }
    }
  }

  /** Returns 0 when no report waits. */
  #fill(buffer: Buffer): number {
    try {
      return readSync(this.#queue, buffer)
    } catch (error) {
      if (error instanceof Error && 'code' in error && error.code === 'EAGAIN') return 0
      throw error
    }
  }
}

const int32 = (buffer: Buffer, at: number) =>
  endianness() === 'LE' ? buffer.readInt32LE(at) : buffer.readInt32BE(at)

let inotify: ReturnType<typeof loadInotify> | undefined
const openInotify = () => {
  inotify ??= loadInotify()
  return inotify
}

function loadInotify() {
  if (process.platform !== 'linux') throw new Unavailable(`inotify: not supported on ${process.platform}`)
  return openLibrary({
    inotify_init1: { args: ['i32'], returns: 'i32' },
    inotify_add_watch: { args: ['i32', 'ptr', 'u32'], returns: 'i32' },
  } as const).symbols
}
