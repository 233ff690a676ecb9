import { dirname } from 'node:path'
import type { Python } from './python.ts'
import { filterProgram, type Instruction } from './system-calls.ts'

// The ladder of sandboxes for code of users (docs/adr/0017-python-sandbox.md): the strongest step that works here is
// taken. Each adds to what the process does to itself before it sees that code (confine.py).

export const SANDBOX_MODES = ['auto', 'required', 'off'] as const
/** `auto`: the strongest step there is, and no Python where there is none. `required`: bubblewrap only. `off`: none. */
export type SandboxMode = (typeof SANDBOX_MODES)[number]

/** `bubblewrap`: namespaces, Landlock, seccomp and limits. `landlock`: these without namespaces. `none`: limits only. */
export type SandboxStep = 'bubblewrap' | 'landlock' | 'none'

/** What is tried, the strongest first. */
export const STEPS_OF: Record<SandboxMode, readonly SandboxStep[]> = {
  auto: ['bubblewrap', 'landlock'],
  required: ['bubblewrap'],
  off: ['none'],
}

/** What a sandboxed process may use. */
export interface ProcessLimits {
  /** Of its address space: memory it reserves counts, too. */
  memoryBytes: number
  cpuSeconds: number
  /** Of one file it writes. */
  fileBytes: number
  /** Most bytes in all files beside its result. */
  disk: DiskLimit
  /** Files and directories in its directory. */
  files: number
}

/** Bytes of a working directory. */
export interface DiskLimit {
  /** With bubblewrap: a file system in memory. */
  inMemory: number
  /** With other steps: a directory. */
  onDisk: number
}

/** Most bytes in a working directory with this step. */
export const diskBytesOf = (step: SandboxStep, { inMemory, onDisk }: DiskLimit): number =>
  step === 'bubblewrap' ? inMemory : onDisk

/** The name of the result in the working directory of a process. */
export const RESULT = '.result'

/** Where a sandboxed process finds its input and may write. Both are absolute. */
export interface Rooms {
  inputs: string
  own: string
  /** The file of the result as the service sees it. With bubblewrap it exists before, and appears as RESULT in `own`. */
  result: string
}

/** What confine.py is told. */
export interface Confinement {
  limits: Record<string, number>
  user: readonly [uid: number, gid: number] | null
  readable: readonly string[]
  writable: readonly string[]
  devices: readonly string[]
  landlock: boolean
  /** Whether its user may look into its /proc, as the service must to see which removed files it holds. */
  isOpenToItsUser: boolean
  /** `program` null: there is no filter for this architecture, and the process refuses to go on without one. */
  seccomp: { architecture: string; program: readonly Instruction[] | null } | null
  own: string
}

export interface Launch {
  command: string[]
  confinement: Confinement
}

/** A step with a Python that has been seen to work in it. */
export interface Sandbox {
  step: SandboxStep
  python: Python
}

export const DEVICES = ['/dev/null', '/dev/zero', '/dev/urandom', '/dev/random']
const OPEN_FILES = 256
/** Processes are refused altogether; these are threads. */
const THREADS = 512

const isRoot = () => process.getuid?.() === 0

/** Whether processes become other users (users.ts), so that the rooms must be open to those. */
export const changesUser = (step: SandboxStep): boolean => step !== 'none' && isRoot()

export interface LaunchOptions {
  rooms: Rooms
  limits: ProcessLimits
  /** The user that the process becomes; null: it stays that of the service. */
  user: number | null
  args: readonly string[]
}

/** How to start Python with these arguments in the sandbox. */
export function launchOf({ step, python }: Sandbox, { rooms, limits, user, args }: LaunchOptions): Launch {
  const command = [python.executable, ...args]
  return {
    command:
      step === 'bubblewrap' ? [...bubblewrap(python, rooms, limits.disk.inMemory), ...command] : command,
    confinement: {
      limits: {
        AS: limits.memoryBytes,
        CPU: limits.cpuSeconds,
        FSIZE: limits.fileBytes,
        NOFILE: OPEN_FILES,
        // 1 also keeps the kernel from giving a core file to a program; 0 does not.
        CORE: 1,
        MSGQUEUE: 0,
        // Counted for all processes of a user: a limit for a user that has others would hit those.
        ...(step === 'bubblewrap' || user !== null ? { NPROC: THREADS } : {}),
      },
      user: user === null ? null : [user, user],
      readable: [...python.readable, rooms.inputs],
      writable: [rooms.own],
      devices: DEVICES,
      landlock: step !== 'none',
      isOpenToItsUser: step !== 'bubblewrap',
      seccomp: step === 'none' ? null : { architecture: process.arch, program: filterOf(step) },
      own: rooms.own,
    },
  }
}

const filterOf = (step: SandboxStep) =>
  filterProgram(process.arch, {
    ownsOthers: step === 'landlock' && !isRoot(),
    // A file that was removed and passed on would count nowhere.
    passesFiles: step !== 'landlock',
  })

function bubblewrap(python: Python, { inputs, own, result }: Rooms, diskBytes: number): string[] {
  const shown = python.readable.filter(
    (path) => !SYSTEM.some((one) => path === one || path.startsWith(`${one}/`)),
  )
  return [
    Bun.which('bwrap') ?? 'bwrap',
    '--unshare-pid',
    '--unshare-net',
    '--unshare-ipc',
    '--unshare-uts',
    '--unshare-cgroup-try',
    // Root needs no user namespace, and keeps just what it takes to become somebody else.
    ...(isRoot()
      ? ['--cap-drop', 'ALL', '--cap-add', 'CAP_SETUID', '--cap-add', 'CAP_SETGID']
      : ['--unshare-user']),
    '--die-with-parent',
    // What leads to a path shown would be open to root alone.
    ...ancestorsOf([...DEVICES, '/etc/localtime', ...shown, inputs, own]).flatMap((path) => [
      '--perms',
      '0755',
      '--dir',
      path,
    ]),
    ...SYSTEM.flatMap((path) => ['--ro-bind-try', path, path]),
    ...['/etc/ld.so.cache', '/etc/localtime'].flatMap((path) => ['--ro-bind-try', path, path]),
    ...DEVICES.flatMap((path) => ['--dev-bind', path, path]),
    ...shown.flatMap((path) => ['--ro-bind', path, path]),
    ...['--ro-bind', inputs, inputs],
    // A file system of its own: the kernel counts what it holds, whatever was removed, closed or nested.
    ...['--perms', '0777', '--size', String(diskBytes), '--tmpfs', own],
    // The result alone is on the disk; the limit of a file's size bounds it.
    ...['--bind', result, `${own}/${RESULT}`],
    '--chdir',
    own,
    '--',
  ]
}

/** Each directory above these paths, the highest first. */
function ancestorsOf(paths: readonly string[]): string[] {
  const above = new Set<string>()
  for (const path of paths)
    for (let at = dirname(path); at !== dirname(at) && !SYSTEM.includes(at); at = dirname(at)) above.add(at)
  return [...above].filter((path) => !SYSTEM.some((one) => path.startsWith(`${one}/`))).sort()
}

/** What distributions install: readable to everybody anyway. Where one is a link to another it is shown under both names. */
const SYSTEM = ['/usr', '/lib', '/lib64', '/bin']

/**
 * The strongest sandbox in which a Python of this machine starts, or why there is none. `start` tries one: it resolves
 * to null, or to why it did not work.
 */
export async function chooseSandbox(
  steps: readonly SandboxStep[],
  pythons: readonly Python[],
  start: (sandbox: Sandbox) => Promise<string | null>,
): Promise<Sandbox | { reason: string }> {
  const reasons: string[] = []
  for (const step of steps) {
    if (step === 'bubblewrap' && Bun.which('bwrap') === null) {
      reasons.push('bubblewrap: it is not installed')
      continue
    }
    for (const python of pythons) {
      const reason = await start({ step, python })
      if (reason === null) return { step, python }
      reasons.push(`${step} with ${python.executable}: ${reason}`)
    }
  }
  return { reason: reasons.join('; ') }
}
