import { dlopen, type FFIFunction, type Pointer, ptr, read } from 'bun:ffi'
import assert from 'node:assert'
import { closeSync, openSync, statSync } from 'node:fs'
import { constants } from 'node:os'
import { type Instruction, OWN_PID } from './system-calls.ts'

// System calls with which a process gives up rights permanently: Landlock, capabilities and the system call filter. They work
// on Linux on x64 and arm64. Elsewhere `openKernel` throws Unavailable.

/** This machine lacks a feature that the sandbox needs. */
export class Unavailable extends Error {}

/**
 * System calls without a function in the C library. Their numbers are equal on both architectures, except those in PER_ARCH.
 */
const LANDLOCK_CREATE = 444
const LANDLOCK_ADD = 445
const LANDLOCK_RESTRICT = 446
const CLOSE_RANGE = 436
interface CallNumbers {
  capset: number
  seccomp: number
  setfsuid: number
  setfsgid: number
}
const PER_ARCH: Record<string, CallNumbers> = {
  x64: { capset: 126, seccomp: 317, setfsuid: 122, setfsgid: 123 },
  arm64: { capset: 91, seccomp: 277, setfsuid: 151, setfsgid: 152 },
}

const PR_SET_PDEATHSIG = 1
const PR_SET_DUMPABLE = 4
const PR_CAPBSET_DROP = 24
const PR_SET_NO_NEW_PRIVS = 38
const PR_CAP_AMBIENT = 47
const PR_CAP_AMBIENT_CLEAR_ALL = 4
const SIGKILL = 9
const CAPABILITY_VERSION_3 = 0x20080522
const SECCOMP_SET_MODE_FILTER = 1
const SECCOMP_GET_ACTION_AVAIL = 2
const SECCOMP_RET_ERRNO = 0x00050000
const SECCOMP_FILTER_FLAG_TSYNC = 1
const CLOSE_RANGE_CLOEXEC = 4
const F_SETFD = 2
const O_PATH = 0o10000000
const O_CLOEXEC = 0o2000000

const EXECUTE = 1 << 0
const WRITE_FILE = 1 << 1
const READ_FILE = 1 << 2
const READ_DIR = 1 << 3
const REMOVE_DIR = 1 << 4
const REMOVE_FILE = 1 << 5
const MAKE_DIR = 1 << 7
const MAKE_REG = 1 << 8
const REFER = 1 << 13
const TRUNCATE = 1 << 14
const READ = READ_FILE | READ_DIR
// Links, pipes, sockets and devices are forbidden: a path that leads elsewhere must not appear where the service reads.
const WRITE = READ | WRITE_FILE | REMOVE_DIR | REMOVE_FILE | MAKE_DIR | MAKE_REG | REFER | TRUNCATE
const OF_A_FILE = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE
/** File access rights that each version of Landlock can check. The last entry also serves all later versions. */
const FILE_ACCESS = [13, 14, 15, 15, 16].map((rights) => 2 ** rights - 1)
const BIND = 1n
const CONNECT = 2n
const ABSTRACT_SOCKETS_AND_SIGNALS = 3n

/** Numbers from /usr/include. `struct rlimit` is two words of 64 bits. */
const RLIMITS = { FSIZE: 1, CORE: 4, NOFILE: 7, MSGQUEUE: 12 } as const
export type LimitName = keyof typeof RLIMITS

/** Absolute paths. Missing paths are skipped. */
export interface AccessPaths {
  readable: readonly string[]
  /** Paths that may be read, and executed as programs. */
  executable: readonly string[]
  writable: readonly string[]
  /** Special files that may be read and written. */
  devices: readonly string[]
}

/** TCP ports of any address. Older kernels cannot check ports, and allow all. */
export interface Ports {
  listen: readonly number[]
  connect: readonly number[]
}

/** Opens the kernel interface of this machine. Throws Unavailable. */
export function openKernel(): Kernel {
  const numbers = PER_ARCH[process.arch]
  if (process.platform !== 'linux' || numbers === undefined)
    throw new Unavailable(`not supported on ${process.platform}-${process.arch}`)
  return new Kernel(openLibc().symbols, numbers)
}

type Libc = ReturnType<typeof openLibc>['symbols']

/** System calls with which this process gives up rights. Each throws Unavailable when the kernel refuses. */
class Kernel {
  readonly #libc: Libc
  readonly #numbers: CallNumbers

  constructor(libc: Libc, numbers: CallNumbers) {
    this.#libc = libc
    this.#numbers = numbers
  }

  /** Whether the kernel reports Landlock. */
  hasLandlock(): boolean {
    return Number(this.#libc.syscall(BigInt(LANDLOCK_CREATE), 0n, 0n, 1n, 0n)) >= 1
  }

  /** Whether the kernel reports system call filters. */
  hasFilters(): boolean {
    const action = new Uint32Array([SECCOMP_RET_ERRNO])
    const call = [SECCOMP_GET_ACTION_AVAIL, 0, pointerTo(action), 0].map(BigInt)
    const [operation = 0n, flags = 0n, address = 0n, none = 0n] = call
    return this.#libc.syscall(BigInt(this.#numbers.seccomp), operation, flags, address, none) === 0n
  }

  /**
   * Runs synchronous work with the file access rights of another user, and of the group with the same number. The rights are
   * those of this thread. Only root may call it, and gets its own rights back afterwards. Root without CAP_SYS_PTRACE needs
   * this: only the user of a process may read its /proc directory.
   */
  asUser<Result>(user: number, work: () => Result): Result {
    const become = (uid: number, gid: number) => {
      this.#libc.syscall(BigInt(this.#numbers.setfsgid), BigInt(gid), 0n, 0n, 0n)
      this.#libc.syscall(BigInt(this.#numbers.setfsuid), BigInt(uid), 0n, 0n, 0n)
    }
    become(user, user)
    try {
      return work()
    } finally {
      become(process.geteuid?.() ?? 0, process.getegid?.() ?? 0)
    }
  }

  /** Forbids later programs of this process to gain rights. The process and its later programs end with its parent. */
  settle(): void {
    this.#prctl('no_new_privs', PR_SET_NO_NEW_PRIVS, 1)
    this.#prctl('parent death signal', PR_SET_PDEATHSIG, SIGKILL)
  }

  limit(name: LimitName, value: number): void {
    const limits = new BigUint64Array([BigInt(value), BigInt(value)])
    const was = new BigUint64Array(2)
    this.#libc.getrlimit(RLIMITS[name], ptr(was))
    const [, hard] = was
    assert(hard !== undefined, 'getrlimit returned no hard limit')
    if (hard < BigInt(value)) limits.fill(hard)
    if (this.#libc.setrlimit(RLIMITS[name], ptr(limits)) !== 0)
      throw new Unavailable(`${name}: ${this.#errnoName()}`)
  }

  /** Drops the capabilities of root. Has no effect on a process without capabilities. */
  dropCapabilities(): void {
    // Stops at the first capability that this kernel does not know.
    for (let capability = 0; capability < 64; capability += 1)
      if (this.#libc.prctl(PR_CAPBSET_DROP, BigInt(capability), 0n, 0n, 0n) !== 0) break
    this.#libc.prctl(PR_CAP_AMBIENT, BigInt(PR_CAP_AMBIENT_CLEAR_ALL), 0n, 0n, 0n)
    const header = new Int32Array([CAPABILITY_VERSION_3, 0])
    const none = new Uint32Array(6)
    this.#syscall('capabilities', this.#numbers.capset, pointerTo(header), pointerTo(none))
  }

  /** Restricts this thread, its children and its later programs to these paths and TCP ports. */
  seeOnly(
    { readable, executable, writable, devices }: AccessPaths,
    ports: Ports = { listen: [], connect: [] },
  ): void {
    const version = this.#syscall('landlock_create_ruleset', LANDLOCK_CREATE, 0, 0, 1)
    if (version < 1) throw new Unavailable('the kernel has no Landlock')
    const handled = FILE_ACCESS[Math.min(version, FILE_ACCESS.length) - 1]
    assert(handled !== undefined, `no file access rights for Landlock version ${version}`)
    const attributes = new BigUint64Array([
      BigInt(handled),
      ...(version >= 4 ? [BIND | CONNECT] : []),
      ...(version >= 6 ? [ABSTRACT_SOCKETS_AND_SIGNALS] : []),
    ])
    const ruleset = this.#syscall(
      'landlock_create_ruleset',
      LANDLOCK_CREATE,
      pointerTo(attributes),
      attributes.byteLength,
    )
    for (const path of readable) this.#addPath(ruleset, path, READ & handled)
    for (const path of executable) this.#addPath(ruleset, path, (READ | EXECUTE) & handled)
    for (const path of writable) this.#addPath(ruleset, path, WRITE & handled)
    for (const path of devices) this.#addPath(ruleset, path, READ_FILE | WRITE_FILE)
    if (version >= 4) {
      for (const port of ports.listen) this.#addPort(ruleset, port, BIND)
      for (const port of ports.connect) this.#addPort(ruleset, port, CONNECT)
    }
    this.#syscall('landlock_restrict_self', LANDLOCK_RESTRICT, ruleset, 0)
    closeSync(ruleset)
  }

  /**
   * Restricts every thread of this process to the calls that the filter allows. Also forbids other processes to trace this
   * process or read its memory.
   */
  filter(program: readonly Instruction[]): void {
    this.#prctl('dumpable', PR_SET_DUMPABLE, 0)
    const code = Buffer.alloc(program.length * 8)
    for (const [index, [operation, yes, no, operand]] of program.entries()) {
      code.writeUInt16LE(operation, index * 8)
      code.writeUInt8(yes, index * 8 + 2)
      code.writeUInt8(no, index * 8 + 3)
      code.writeUInt32LE(operand === OWN_PID ? process.pid : operand, index * 8 + 4)
    }
    const head = Buffer.alloc(16)
    head.writeUInt16LE(program.length, 0)
    head.writeBigUInt64LE(pointerTo(code), 8)
    const thread = this.#syscall(
      'seccomp',
      this.#numbers.seccomp,
      SECCOMP_SET_MODE_FILTER,
      SECCOMP_FILTER_FLAG_TSYNC,
      pointerTo(head),
    )
    if (thread !== 0) throw new Unavailable(`seccomp: thread ${thread} could not be filtered`)
  }

  /**
   * Replaces this process by another program. The program keeps standard input, output, error and `kept`, and no other
   * descriptor. Returns only by throwing.
   */
  become(command: readonly string[], env: readonly string[], kept: number): never {
    this.#syscall('close_range', CLOSE_RANGE, kept + 1, 0xffffffff, CLOSE_RANGE_CLOEXEC)
    this.#libc.fcntl(kept, F_SETFD, 0)
    const [program = ''] = command
    const texts = (list: readonly string[]) => list.map((text) => Buffer.from(`${text}\0`))
    const [path, args, variables] = [texts([program]), texts(command), texts(env)]
    const table = (list: readonly Buffer[]) => new BigUint64Array([...list.map(pointerTo), 0n])
    const [argv, envp] = [table(args), table(variables)]
    this.#libc.execve(ptr(path[0] as Buffer), ptr(argv), ptr(envp))
    throw new Unavailable(`execve: ${this.#errnoName()}`)
  }

  #addPath(ruleset: number, path: string, access: number): void {
    let descriptor: number
    try {
      descriptor = openSync(path, O_PATH | O_CLOEXEC)
    } catch {
      return
    }
    try {
      const rights = statSync(path).isDirectory() ? access : access & OF_A_FILE
      const rule = Buffer.alloc(12)
      rule.writeBigUInt64LE(BigInt(rights), 0)
      rule.writeInt32LE(descriptor, 8)
      this.#syscall('landlock_add_rule', LANDLOCK_ADD, ruleset, 1, pointerTo(rule))
    } finally {
      closeSync(descriptor)
    }
  }

  #addPort(ruleset: number, port: number, access: bigint): void {
    const rule = new BigUint64Array([access, BigInt(port)])
    this.#syscall('landlock_add_rule', LANDLOCK_ADD, ruleset, 2, pointerTo(rule))
  }

  #syscall(what: string, number: number, ...args: (number | bigint)[]): number {
    const [a = 0, b = 0, c = 0, d = 0] = args.map(BigInt)
    const result = Number(this.#libc.syscall(BigInt(number), BigInt(a), BigInt(b), BigInt(c), BigInt(d)))
    if (result < 0) throw new Unavailable(`${what}: ${this.#errnoName()}`)
    return result
  }

  #prctl(what: string, option: number, first: number, second = 0): void {
    if (this.#libc.prctl(option, BigInt(first), BigInt(second), 0n, 0n) !== 0)
      throw new Unavailable(`${what}: ${this.#errnoName()}`)
  }

  /** Formats the last error, such as `EPERM (1)`. */
  #errnoName(): string {
    const errno = read.i32(this.#libc.__errno_location() as Pointer, 0)
    const name = Object.entries(constants.errno).find(([, number]) => number === errno)?.[0]
    return `${name ?? 'error'} (${errno})`
  }
}

const pointerTo = (view: NodeJS.TypedArray | Buffer) => BigInt(ptr(view))

const openLibc = () => openLibrary(SYMBOLS)

/** Opens functions of the C library. Throws Unavailable. */
export function openLibrary<const Symbols extends Record<string, FFIFunction>>(symbols: Symbols) {
  for (const name of ['libc.so.6', 'libc.musl-x86_64.so.1', 'libc.musl-aarch64.so.1', 'libc.so'])
    try {
      return dlopen(name, symbols)
    } catch {}
  throw new Unavailable('the C library was not found')
}

const SYMBOLS = {
  syscall: { args: ['i64', 'i64', 'i64', 'i64', 'i64'], returns: 'i64' },
  prctl: { args: ['i32', 'u64', 'u64', 'u64', 'u64'], returns: 'i32' },
  fcntl: { args: ['i32', 'i32', 'i32'], returns: 'i32' },
  getrlimit: { args: ['i32', 'ptr'], returns: 'i32' },
  setrlimit: { args: ['i32', 'ptr'], returns: 'i32' },
  execve: { args: ['ptr', 'ptr', 'ptr'], returns: 'i32' },
  __errno_location: { args: [], returns: 'ptr' },
} as const
