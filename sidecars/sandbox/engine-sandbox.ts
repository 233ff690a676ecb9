import { existsSync } from 'node:fs'
import { mkdir } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { LAKE_PREFIX } from '../../lake/iceberg/format/location.ts'
import type { Log } from '../core/log.ts'
import { type AccessPaths, type LimitName, openKernel, type Ports, Unavailable } from './kernel.ts'
import { DEVICES, type SandboxMode } from './ladder.ts'

// The sandbox around engine processes (docs/adr/0020-engine-sandbox.md), the second barrier after DuckDB's own lock. Code that
// breaks the lock is in a process that sees only its own directory and the lake. The process can start no other process and
// open no connection.

/**
 * - `landlock`: Landlock, seccomp, no capabilities, limits.
 * - `seccomp`: the same without Landlock, on kernels that lack Landlock. Only file modes protect files then.
 * - `none`: only the engine's own lock, with SANDBOX=off and on systems that offer neither.
 */
export type EngineSandboxStep = 'landlock' | 'seccomp' | 'none'

export const ENGINE_SANDBOX_STEPS_OF: Record<SandboxMode, readonly EngineSandboxStep[]> = {
  auto: ['landlock', 'seccomp', 'none'],
  required: ['landlock'],
  off: ['none'],
}

/** Absolute paths that an engine process may access besides its own directory. */
export interface EngineView {
  readable: readonly string[]
  writable: readonly string[]
}

/** The argument of engine-launcher.main.ts. */
export interface EngineSandboxSpec {
  command: readonly string[]
  /** Null: the environment of the launcher. */
  env: readonly string[] | null
  /** The descriptor of the IPC channel through which the engine receives its work. */
  channel: number
  niceness: number
  limits: readonly (readonly [LimitName, number])[]
  places: AccessPaths | null
  /** None if omitted. */
  ports?: Ports
}

interface EngineStart {
  /** The entry file. */
  entry: string
  /** The working directory, which belongs to this process alone. The process writes nowhere else. */
  directory: string
  /** The niceness of the process. SQL of users must not take processor time from the service. */
  niceness: number
  /** Arguments of the entry file. */
  args?: readonly string[]
}

export interface EngineSandbox {
  step: EngineSandboxStep
  /** Returns the command that starts an engine process in this sandbox. The process inherits an IPC channel. */
  command(start: EngineStart): string[]
}

/**
 * The whole environment of an engine process, without variables of the service. A fixed TZ makes texts of times equal on every
 * machine.
 */
export const ENGINE_ENVIRONMENT = { TZ: 'UTC' }

const here = (name: string) => fileURLToPath(new URL(name, import.meta.url))
const ROOT = here('../..')
const LAUNCHER = here('./engine-launcher.main.ts')
const FILTER = here('./engine-filter.preload.ts')
const PROBE = here('./sandbox-probe.main.ts')
/**
 * The time limit of a sandbox probe, which normally takes 0.2 s. A slower sandbox counts as failed, and the service then executes no code
 * until its restart.
 */
const PROBE_MS = 60_000
/** The descriptor that Bun.spawn gives to the IPC channel of a child with three standard descriptors. */
const CHANNEL = 3
const STANDARD_ERROR = 2
const OPEN_FILES = 8_192

/** Directories of libraries that a program needs to start, and the engine to load. */
const LIBRARIES = ['/lib', '/lib64', '/usr/lib', '/usr/lib64', '/usr/local/lib']
const SYSTEM_FILES = [
  '/etc/ld.so.cache',
  '/etc/localtime',
  '/usr/share/zoneinfo',
  // The number of processors, the size of memory, and the memory use of the process.
  '/sys/devices/system/cpu',
  '/sys/fs/cgroup',
  '/proc/self',
  '/proc/meminfo',
]
/** The service's own code that engines execute. No directory that could contain data may be listed. */
const CODE = ['sidecars', 'ground', 'lake', 'proto', 'package.json', 'tsconfig.json', 'bunfig.toml']

/** Returns the sandbox of this step. */
export function engineSandboxOf(step: EngineSandboxStep, view: EngineView): EngineSandbox {
  return { step, command: (start) => commandOf(step, view, start) }
}

function commandOf(
  step: EngineSandboxStep,
  view: EngineView,
  { entry, directory, niceness, args = [] }: EngineStart,
): string[] {
  const bun = process.execPath
  if (step === 'none') {
    const nice = Bun.which('nice')
    return [...(nice === null ? [] : [nice, '-n', String(niceness)]), bun, entry, ...args]
  }
  const spec: EngineSandboxSpec = {
    command: [bun, '--preload', FILTER, entry, ...args],
    env: [
      ...Object.entries(ENGINE_ENVIRONMENT).map(([name, value]) => `${name}=${value}`),
      `NODE_CHANNEL_FD=${CHANNEL}`,
      'NODE_CHANNEL_SERIALIZATION_MODE=advanced',
      `NODE_PATH=${modulePaths().join(':')}`,
    ],
    channel: CHANNEL,
    niceness,
    limits: [
      ['CORE', 0],
      ['MSGQUEUE', 0],
      ['NOFILE', OPEN_FILES],
    ],
    places:
      step === 'seccomp'
        ? null
        : {
            readable: [
              ...SYSTEM_FILES,
              ...CODE.map((name) => join(ROOT, name)),
              ...modulePaths(),
              ...view.readable,
            ],
            executable: [...LIBRARIES, bun],
            writable: [directory, ...view.writable],
            devices: DEVICES,
          },
  }
  return [bun, LAUNCHER, JSON.stringify(spec)]
}

/** A program of others that works as an engine, such as Sail. */
interface ProgramStart {
  command: readonly string[]
  directory: string
  niceness: number
  /** Paths that the program reads to start. */
  readable: readonly string[]
  ports: Ports
}

/** The sandboxes of programs of others. They need more system calls than engines, so only Landlock confines them. */
export type ProgramSandboxStep = Exclude<EngineSandboxStep, 'seccomp'>

/** Returns the command that starts the program in the sandbox of this step, with the environment of the launcher. */
export function programCommand(step: ProgramSandboxStep, start: ProgramStart): string[] {
  const { command, directory, niceness, readable, ports } = start
  if (step === 'none') return [...command]
  const [program = ''] = command
  const spec: EngineSandboxSpec = {
    command,
    env: null,
    channel: STANDARD_ERROR,
    niceness,
    limits: [['CORE', 0]],
    places: {
      readable: [...SYSTEM_FILES, ...readable],
      executable: [...LIBRARIES, program],
      writable: [directory],
      devices: DEVICES,
    },
    ports,
  }
  return [process.execPath, LAUNCHER, JSON.stringify(spec)]
}

/** Directories of packages, which may be installed anywhere above the service. */
function modulePaths(): string[] {
  const found: string[] = []
  for (let at = ROOT; ; at = dirname(at)) {
    found.push(join(at, 'node_modules'))
    if (at === dirname(at)) return found.filter((path) => existsSync(path))
  }
}

/**
 * Returns the strongest sandbox of the mode that works on this machine. Throws NoSandbox if the mode requires a sandbox that
 * does not work. Throws FailedSandbox if the kernel offers a sandbox that fails; no weaker sandbox replaces it.
 */
export async function chooseEngineSandbox(
  mode: SandboxMode,
  view: EngineView,
  log: Log,
): Promise<EngineSandbox> {
  const reasons: string[] = []
  for (const step of ENGINE_SANDBOX_STEPS_OF[mode]) {
    const sandbox = engineSandboxOf(step, view)
    const reason = step === 'none' ? null : await tryOut(sandbox)
    if (reason !== null) {
      reasons.push(`${step}: ${reason}`)
      if (mode === 'auto' && isOffered(step)) throw new FailedSandbox(reasons)
      continue
    }
    const fields = reasons.length === 0 ? undefined : { reason: reasons.join('; ') }
    if (step === 'none')
      log.warn(
        'engine processes run without a sandbox: only the lock of DuckDB confines SQL of users',
        fields,
      )
    else log.info(`engine processes run in a sandbox: ${step}`, fields)
    return sandbox
  }
  throw new NoSandbox(
    `SANDBOX=required, and engine processes cannot be confined here (${reasons.join('; ')}): allow Landlock, or set SANDBOX=auto`,
  )
}

/**
 * Returns the directory of the lake's files on a disk shared with the API, where engines read them in place. Creates the
 * directory, because it must exist before the first engine starts.
 */
export async function lakeDirectories(lakeDir: string | null): Promise<string[]> {
  if (lakeDir === null) return []
  const directory = join(resolve(lakeDir), LAKE_PREFIX)
  await mkdir(directory, { recursive: true }).catch((error: unknown) => {
    if (!existsSync(directory)) throw error
  })
  return [directory]
}

/** The configuration requires a sandbox that this machine does not support. */
export class NoSandbox extends Error {}

/** The kernel offers a sandbox, but engine processes could not be confined in it. The message contains no path. */
export class FailedSandbox extends Error {
  constructor(reasons: readonly string[]) {
    super(`engine processes cannot be confined: ${reasons.join('; ')}`)
  }
}

/** Whether the kernel reports all parts of this sandbox. */
function isOffered(step: EngineSandboxStep): boolean {
  try {
    const kernel = openKernel()
    return kernel.hasFilters() && (step !== 'landlock' || kernel.hasLandlock())
  } catch (error) {
    if (error instanceof Unavailable) return false
    throw error
  }
}

/** Returns the reason why the sandbox fails, or null if it works. */
async function tryOut(sandbox: EngineSandbox): Promise<string | null> {
  const child = Bun.spawn(
    sandbox.command({ entry: PROBE, directory: '/nonexistent', niceness: 0, args: [sandbox.step] }),
    {
      env: ENGINE_ENVIRONMENT,
      cwd: '/',
      stdin: 'ignore',
      stdout: 'ignore',
      stderr: 'pipe',
      timeout: PROBE_MS,
      killSignal: 'SIGKILL',
      // Opens the IPC channel, so that its descriptor exists.
      serialization: 'advanced',
      ipc: () => {},
    },
  )
  const [errorOutput, code] = await Promise.all([new Response(child.stderr).text(), child.exited])
  if (code === 0) return null
  // Other output may contain paths, and any caller may read the reason.
  return (
    /^engine process: (.*)$/m.exec(errorOutput)?.[1] ??
    `probe ended with ${child.signalCode ?? `code ${code}`}`
  )
}
