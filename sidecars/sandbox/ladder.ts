import { dirname } from 'node:path'
import type { Python } from './python.ts'
import { filterProgram, type Instruction } from './system-calls.ts'

// The sandboxes for code of users (docs/adr/0017-python-sandbox.md). The service uses the strongest step that works on this
// machine. Each step adds to the restrictions that confine.py applies to its own process before it executes that code.

export const SANDBOX_MODES = ['auto', 'required', 'off'] as const
/**
 * `auto`: the strongest step that works; without one, no Python is executed. `required`: bubblewrap only. `off`: no sandbox.
 */
export type SandboxMode = (typeof SANDBOX_MODES)[number]

/** `bubblewrap`: namespaces, Landlock, seccomp and limits. `landlock`: the same without namespaces. `none`: limits only. */
export type SandboxStep = 'bubblewrap' | 'landlock' | 'none'

/** The steps that are tried, strongest first. */
export const STEPS_OF: Record<SandboxMode, readonly SandboxStep[]> = {
  auto: ['bubblewrap', 'landlock'],
  required: ['bubblewrap'],
  off: ['none'],
}

/** Resource limits of a sandboxed process. */
export interface ProcessLimits {
  /** The size of the address space, including reserved memory. */
  memoryBytes: number
  cpuSeconds: number
  /** The size of each file that the process writes. */
  fileBytes: number
  /** The maximum size of all files except the result, in bytes. */
  disk: DiskLimit
  /** Files and directories in the working directory. */
  files: number
}

/** The size of a working directory, in bytes. */
export interface DiskLimit {
  /** The limit with bubblewrap, which uses a file system in memory. */
  inMemory: number
  /** The limit with the other steps, which use a directory on disk. */
  onDisk: number
}

/** The maximum size of a working directory with this step, in bytes. */
export const diskBytesOf = (step: SandboxStep, { inMemory, onDisk }: DiskLimit): number =>
  step === 'bubblewrap' ? inMemory : onDisk

/** The name of the result file in the working directory. */
export const RESULT = '.result'

/** The directories of a sandboxed process: its inputs, and its own writable directory. Both paths are absolute. */
export interface ProcessDirectories {
  inputs: string
  own: string
  /**
   * The path of the result file outside of the sandbox. With bubblewrap the file must exist before the start, and appears as
   * RESULT in `own`.
   */
  result: string
}

/** The argument of `confine` in confine.py. */
interface Confinement {
  limits: Record<string, number>
  user: readonly [uid: number, gid: number] | null
  readable: readonly string[]
  writable: readonly string[]
  devices: readonly string[]
  landlock: boolean
  /**
   * Whether the user of the process may read its /proc directory. The service needs this to find removed files that the process
   * still holds open.
   */
  isOpenToItsUser: boolean
  /** A null `program` means that this architecture has no filter. The process then refuses to continue. */
  seccomp: { architecture: string; program: readonly Instruction[] | null } | null
  own: string
}

export interface Launch {
  command: string[]
  confinement: Confinement
}

/** A step, with a Python that has started successfully in it. */
export interface Sandbox {
  step: SandboxStep
  python: Python
}

export const DEVICES = ['/dev/null', '/dev/zero', '/dev/urandom', '/dev/random']
const OPEN_FILES = 256
/** The maximum number of threads. Child processes are forbidden altogether. */
const THREADS = 512

const isRoot = () => process.getuid?.() === 0

/** Whether processes run as other users (users.ts), which then need access to the directories. */
export const changesUser = (step: SandboxStep): boolean => step !== 'none' && isRoot()

interface LaunchOptions {
  directories: ProcessDirectories
  limits: ProcessLimits
  /** The user of the process. Null keeps the user of the service. */
  user: number | null
  args: readonly string[]
}

/** Returns the command and the restrictions that start Python with these arguments. */
export function launchOf(
  { step, python }: Sandbox,
  { directories, limits, user, args }: LaunchOptions,
): Launch {
  const command = [python.executable, ...args]
  return {
    command:
      step === 'bubblewrap'
        ? [...bubblewrap(python, directories, limits.disk.inMemory), ...command]
        : command,
    confinement: {
      limits: {
        AS: limits.memoryBytes,
        CPU: limits.cpuSeconds,
        FSIZE: limits.fileBytes,
        NOFILE: OPEN_FILES,
        // With 1 the kernel does not pipe a core file to a program; with 0 it would.
        CORE: 1,
        MSGQUEUE: 0,
        // The kernel counts all processes of a user, so a limit would also affect other processes of a shared user.
        ...(step === 'bubblewrap' || user !== null ? { NPROC: THREADS } : {}),
      },
      user: user === null ? null : [user, user],
      readable: [...python.readable, directories.inputs],
      writable: [directories.own],
      devices: DEVICES,
      landlock: step !== 'none',
      isOpenToItsUser: step !== 'bubblewrap',
      seccomp: step === 'none' ? null : { architecture: process.arch, program: filterOf(step) },
      own: directories.own,
    },
  }
}

const filterOf = (step: SandboxStep) =>
  filterProgram(process.arch, {
    ownsOthers: step === 'landlock' && !isRoot(),
    // A removed file that was sent over a socket would count towards no limit.
    passesFiles: step !== 'landlock',
  })

function bubblewrap(
  python: Python,
  { inputs, own, result }: ProcessDirectories,
  diskBytes: number,
): string[] {
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
    // Root needs no user namespace. It keeps only the capabilities for a change of user.
    ...(isRoot()
      ? ['--cap-drop', 'ALL', '--cap-add', 'CAP_SETUID', '--cap-add', 'CAP_SETGID']
      : ['--unshare-user']),
    '--die-with-parent',
    // Creates the parent directories of visible paths, which otherwise only root could enter.
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
    // A separate file system in memory: the kernel limits its size, including removed, closed and nested files.
    ...['--perms', '0777', '--size', String(diskBytes), '--tmpfs', own],
    // Only the result is on disk, where FSIZE limits its size.
    ...['--bind', result, `${own}/${RESULT}`],
    '--chdir',
    own,
    '--',
  ]
}

/** Every directory above these paths, topmost first. */
function ancestorsOf(paths: readonly string[]): string[] {
  const above = new Set<string>()
  for (const path of paths)
    for (let at = dirname(path); at !== dirname(at) && !SYSTEM.includes(at); at = dirname(at)) above.add(at)
  return [...above].filter((path) => !SYSTEM.some((one) => path.startsWith(`${one}/`))).sort()
}

/**
 * Directories that a distribution installs and every user may read. A directory that is a link to another one is visible under
 * both names.
 */
const SYSTEM = ['/usr', '/lib', '/lib64', '/bin']

/**
 * Returns the strongest sandbox in which a Python of this machine starts, or the reason why none does. `start` tries one
 * sandbox and resolves to null, or to the reason of its failure.
 */
export async function chooseSandbox(
  steps: readonly SandboxStep[],
  pythons: readonly Python[],
  start: (sandbox: Sandbox) => Promise<string | null>,
): Promise<Sandbox | { reason: string }> {
  const reasons: string[] = []
  for (const step of steps) {
    if (step === 'bubblewrap' && Bun.which('bwrap') === null) {
      reasons.push('bubblewrap: not installed')
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
