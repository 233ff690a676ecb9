// Stands in for an engine whose own lock has been broken: calls the C library directly and attempts everything that is
// forbidden. Started by engine-sandbox.test.ts. An attempt that succeeds changes only files of the test.
import { dlopen, type Pointer, ptr, read } from 'bun:ffi'
import { closeSync, openSync, readdirSync, readFileSync } from 'node:fs'
import { open, readFile } from 'node:fs/promises'
import { Worker } from 'node:worker_threads'

export interface Targets {
  /** A file that contains the secret. */
  secret: string
  /** A directory of another process, beside this one's own. */
  sibling: string
  /** A directory that this process may read. */
  readable: string
  /** A loopback port on which the test's server listens. */
  port: number
  /** Whether the sandbox protects files too, so that attempts on files are made. */
  triesFiles: boolean
}
export type Answers = Record<string, string>

const { symbols: libc } = dlopen('libc.so.6', {
  syscall: { args: ['i64', 'i64', 'i64', 'i64', 'i64', 'i64', 'i64'], returns: 'i64' },
  __errno_location: { args: [], returns: 'ptr' },
})
const column = process.arch === 'x64' ? 0 : 1
const AT_FDCWD = -100n
const CHANNEL = 3
const held: Buffer[] = []

function pointerTo(bytes: Buffer): bigint {
  held.push(bytes)
  return BigInt(ptr(bytes))
}
const text = (value: string) => pointerTo(Buffer.from(`${value}\0`))
const zeros = (length: number) => pointerTo(Buffer.alloc(length))

/** Makes a system call by its number on x64 or arm64. Null means that the architecture lacks the call. */
function call(numbers: readonly [number | null, number | null], ...args: (bigint | number)[]): string {
  const number = numbers[column] ?? null
  if (number === null) return 'refused: no such call'
  const [a = 0n, b = 0n, c = 0n, d = 0n, e = 0n, f = 0n] = args.map(BigInt)
  const answer = Number(libc.syscall(BigInt(number), a, b, c, d, e, f))
  if (answer >= 0) return `NOT REFUSED: ${answer}`
  return `refused: ${read.i32(libc.__errno_location() as Pointer, 0)}`
}

async function attempt(work: () => unknown): Promise<string> {
  try {
    return `NOT REFUSED: ${String(await work()).slice(0, 80)}`
  } catch (error) {
    return `refused: ${(error as NodeJS.ErrnoException).code ?? String(error)}`
  }
}

async function files({ secret, sibling, readable }: Targets): Promise<Answers> {
  const parent = process.ppid
  const write = (path: string) => () => closeSync(openSync(path, 'a'))
  return {
    'reads a file of the service': await attempt(() => readFileSync(secret, 'utf8')),
    'reads the secret by system call': call([257, 56], AT_FDCWD, text(secret), 0),
    'reads the secret by openat2': call([437, 437], AT_FDCWD, text(secret), zeros(24), 24),
    'reads the secret through /proc/self/root': await attempt(() => readFileSync(`/proc/self/root${secret}`)),
    'reads the secret through the working directory': await attempt(() =>
      readFileSync(`/proc/self/cwd/../../../../../..${secret}`),
    ),
    'reads the secret from a thread of the pool': await attempt(() => readFile(secret, 'utf8')),
    'reads the secret from a new thread': await attempt(() => readInThread(secret)),
    'gets a handle of the secret': call([303, 264], AT_FDCWD, text(secret), zeros(136), zeros(8), 0),
    'opens a file by handle': call([304, 265], AT_FDCWD, zeros(16), 0),
    'reads a file of another process': await attempt(() => readFileSync(`${sibling}/rows.csv`)),
    'lists the directory of another process': await attempt(() => readdirSync(sibling)),
    'lists the root': await attempt(() => readdirSync('/')),
    'lists the temporary directory': await attempt(() => readdirSync('/tmp')),
    'lists the devices': await attempt(() => readdirSync('/dev')),
    'reads /etc/passwd': await attempt(() => readFileSync('/etc/passwd')),
    'reads /etc/shadow': await attempt(() => readFileSync('/etc/shadow')),
    'reads the environment of the service': await attempt(() => readFileSync(`/proc/${parent}/environ`)),
    'reads the memory of the service': await attempt(() => readFileSync(`/proc/${parent}/mem`)),
    'lists the descriptors of the service': await attempt(() => readdirSync(`/proc/${parent}/fd`)),
    'reads the command line of the service': await attempt(() => readFileSync(`/proc/${parent}/cmdline`)),
    'reads the environment of the first process': await attempt(() => readFileSync('/proc/1/environ')),
    'reads the symbols of the kernel': await attempt(() => readFileSync('/proc/kallsyms')),
    'writes a file of the service': await attempt(write(secret)),
    'creates a file beside files of another process': await attempt(write(`${sibling}/new`)),
    'writes a file of another process': await attempt(write(`${sibling}/rows.csv`)),
    'creates a file in a readable directory': await attempt(write(`${readable}/new`)),
    'writes a readable file': await attempt(write(`${readable}/rows.csv`)),
    'writes into the temporary directory': await attempt(write('/tmp/sluice-was-here')),
    'writes the code of the service': await attempt(write(import.meta.filename)),
    'truncates the secret': call([76, 45], text(secret), 0),
    'removes the secret': call([263, 35], AT_FDCWD, text(secret), 0),
    'renames the secret': call([264, 38], AT_FDCWD, text(secret), AT_FDCWD, text('mine')),
    'links the secret': call([265, 37], AT_FDCWD, text(secret), AT_FDCWD, text('mine'), 0),
    'creates a symbolic link': call([266, 36], text(secret), AT_FDCWD, text('link')),
    'creates a named pipe': call([259, 33], AT_FDCWD, text('pipe'), 0o010666, 0),
    'creates a device': call([259, 33], AT_FDCWD, text('disk'), 0o060666, 0x800),
  }
}

async function others({ secret, port }: Targets): Promise<Answers> {
  const parent = process.ppid
  const address = Buffer.from([2, 0, port >> 8, port & 0xff, 127, 0, 0, 1, ...Array(8).fill(0)])
  return {
    'changes the mode of the secret': call([268, 53], AT_FDCWD, text(secret), 0o777),
    'changes the owner of the secret': call([260, 54], AT_FDCWD, text(secret), 1000, 1000, 0),
    'changes the times of the secret': call([280, 88], AT_FDCWD, text(secret), 0, 0),
    'sets attributes of the secret': call([188, 5], text(secret), text('user.a'), text('b'), 1, 0),
    'watches files of other processes': call([254, 27], CHANNEL, text('/'), 0xfff),
    // Processes.
    forks: call([57, null]),
    'forks without a copy': call([58, null]),
    'forks by clone': call([56, 220], 17, 0, 0, 0, 0),
    'executes a shell': call([59, 221], text('/bin/sh'), 0, 0),
    'executes a program by descriptor': call([322, 281], AT_FDCWD, text('/bin/sh'), 0, 0, 0),
    'starts a program': await attempt(() => Bun.spawnSync(['/bin/sh', '-c', 'id'])),
    'creates a program in memory': call([319, 279], text('program'), 0),
    'signals its parent': call([62, 129], parent, 0),
    'signals every process': call([62, 129], -1, 0),
    'signals its group': call([62, 129], 0, 0),
    'checks whether a process exists': call([62, 129], 1, 0),
    'signals a thread of its parent': call([234, 131], parent, parent, 0),
    'signals a thread by its id': call([200, 130], parent, 0),
    'queues a signal': call([129, 138], parent, 0, zeros(128)),
    'opens a descriptor of its parent': call([434, 434], parent, 0),
    'traces its parent': call([101, 117], 0x4206, parent, 0, 0),
    'lets itself be traced': call([157, 167], 4, 1, 0, 0, 0),
    'outlives its parent': call([157, 167], 1, 0, 0, 0, 0),
    'reads the memory of its parent': call([310, 270], parent, zeros(16), 1, zeros(16), 1, 0),
    'writes the memory of its parent': call([311, 271], parent, zeros(16), 1, zeros(16), 1, 0),
    'compares itself with its parent': call([312, 272], process.pid, parent, 0, 0, 0),
    'reads the limits of its parent': call([302, 261], parent, 7, 0, zeros(16)),
    'binds its parent to a processor': call([203, 122], parent, 8, pointerTo(Buffer.alloc(8, 0xff))),
    'raises its own priority': call([141, 140], 0, 0, 0),
    'takes a descriptor of another process': call([438, 438], CHANNEL, 0, 0),
    'has a signal sent to its parent': call([72, 25], CHANNEL, 8, parent),
    // Network.
    'opens a socket': call([41, 198], 2, 1, 0),
    'opens an IPv6 socket': call([41, 198], 10, 1, 0),
    'opens a Unix socket': call([41, 198], 1, 1, 0),
    'opens a raw socket': call([41, 198], 17, 3, 0),
    'opens a netlink socket': call([41, 198], 16, 3, 0),
    'opens a vsock socket': call([41, 198], 40, 1, 0),
    'creates datagram sockets': call([53, 199], 1, 2, 0, zeros(8)),
    'connects its channel': call([42, 203], CHANNEL, pointerTo(address), 16),
    'binds its channel to an address': call([49, 200], CHANNEL, pointerTo(address), 16),
    'listens on its channel': call([50, 201], CHANNEL, 1),
    'accepts on its channel': call([43, 202], CHANNEL, 0, 0),
    'fetches a page': await attempt(() => fetch(`http://127.0.0.1:${port}/`)),
    // Kernel.
    'uses io_uring': call([425, 425], 8, zeros(120)),
    'loads a program into the kernel': call([321, 280], 0, zeros(72), 72),
    'watches performance': call([298, 241], zeros(120), 0, -1, -1, 0),
    'handles page faults': call([323, 282], 1),
    'reads keys of the kernel': call([250, 219], 0, -3, 1),
    'adds a key': call([248, 217], text('user'), text('a'), text('b'), 1, -3),
    'loads a module': call([313, 273], CHANNEL, text(''), 0),
    'loads another kernel': call([246, 104], 0, 0, 0, 0),
    'reads the log of the kernel': call([103, 116], 3, zeros(64), 64),
    'creates namespaces': call([272, 97], 0x10000000),
    'enters namespaces': call([308, 268], CHANNEL, 0),
    mounts: call([165, 40], text('none'), text('.'), text('tmpfs'), 0, 0),
    'opens a tree of mounts': call([428, 428], AT_FDCWD, text('/'), 1),
    'changes its root': call([161, 51], text('.')),
    'pivots its root': call([155, 41], text('.'), text('.')),
    'becomes another user': call([117, 147], 1000, 1000, 1000),
    'joins groups': call([116, 159], 0, 0),
    'takes capabilities': call([126, 91], zeros(8), zeros(24)),
    'sets the clock': call([227, 112], 9, zeros(16)),
    'renames the machine': call([170, 161], text(''), -1),
    'restarts the machine': call([169, 142], 0, 0, 0, 0),
    'swaps to a file': call([167, 224], text('nothing'), 0),
    'queries quotas': call([179, 60], 0x80000700, text('/'), 0, zeros(128)),
    'shares memory with other processes': call([29, 194], 0, 4096, 0o1600),
    'opens a message queue': call([68, 186], 0, 0o1600),
    'accesses I/O ports': call([172, null], 0),
    'changes its personality': call([135, 92], 0xffffffff),
    'queries its filter': call([317, 277], 2, 0, pointerTo(Buffer.from([0, 0, 0, 0x80]))),
    'uses 32-bit calls': call([0x40000000 + 39, null]),
    'types into a terminal': call([16, 29], 0, 0x5412, text('x')),
  }
}

async function allowed({ readable }: Targets): Promise<Answers> {
  const own = await open('own.txt', 'w')
  await own.write('mine')
  await own.close()
  const status = readFileSync('/proc/self/status', 'utf8')
  return {
    'reads a readable file': readFileSync(`${readable}/rows.csv`, 'utf8'),
    'writes its own directory': readFileSync('own.txt', 'utf8'),
    'has capabilities': String(/^Cap(?:Prm|Eff|Amb):\t[0-9a-f]*[1-9a-f]/m.test(status)),
    'may gain rights': String(!/^NoNewPrivs:\t1$/m.test(status)),
  }
}

function readInThread(path: string): Promise<string> {
  const source = `
    const { parentPort } = require('node:worker_threads')
    try { parentPort.postMessage(require('node:fs').readFileSync(${JSON.stringify(path)}, 'utf8')) }
    catch (error) { parentPort.postMessage({ code: error.code }) }`
  const worker = new Worker(source, { eval: true })
  return new Promise((resolve, reject) => {
    worker.once('message', (said: string | { code: string }) =>
      typeof said === 'string' ? resolve(said) : reject(said),
    )
    worker.once('error', reject)
  })
}

process.once('message', async (targets: Targets) => {
  const tried = { ...(targets.triesFiles ? await files(targets) : {}), ...(await others(targets)) }
  process.send?.({ tried, allowed: await allowed(targets) })
})
process.once('disconnect', () => process.exit(0))
process.send?.('ready')
