import { existsSync } from 'node:fs'
import { mkdir } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { LAKE_PREFIX } from '../../lake/iceberg/format/location.ts'
import type { Log } from '../core/log.ts'
import { type LimitName, openKernel, type Places, Unavailable } from './kernel.ts'
import { DEVICES, type SandboxMode } from './ladder.ts'

// The second wall around engine processes (docs/adr/0020-engine-sandbox.md). DuckDB's own lock is the first; whoever gets
// past it finds himself in a process that sees its own directory and the lake, and can make no other process, no
// connection and nothing of the sort.

/**
 * `landlock`: Landlock, seccomp, no capabilities, limits. `seccomp`: the same without Landlock, where the kernel has none:
 * files are then kept apart by their modes alone. `none`: the engine's own lock alone, with SANDBOX=off and on systems that
 * offer neither.
 */
export type WallStep = 'landlock' | 'seccomp' | 'none'

export const WALL_STEPS_OF: Record<SandboxMode, readonly WallStep[]> = {
  auto: ['landlock', 'seccomp', 'none'],
  required: ['landlock'],
  off: ['none'],
}

/** What an engine process may see beside its own directory. Absolute paths. */
export interface EngineView {
  readable: readonly string[]
  writable: readonly string[]
}

/** What engine-wall.main.ts is told. */
export interface WallSpec {
  command: readonly string[]
  env: readonly string[]
  /** The descriptor over which the engine hears of its work. */
  channel: number
  niceness: number
  limits: readonly (readonly [LimitName, number])[]
  places: Places | null
}

export interface EngineStart {
  /** The entry file. */
  entry: string
  /** Of this process alone: it works in it and writes nowhere else. */
  directory: string
  /** People's SQL never takes the processor from the service itself. */
  niceness: number
  /** For the entry file. */
  args?: readonly string[]
}

export interface Wall {
  step: WallStep
  /** The command that starts an engine process behind this wall; it inherits an IPC channel. */
  command(start: EngineStart): string[]
}

/** Times are the same text on every machine; nothing of the service's own environment. */
export const ENGINE_ENVIRONMENT = { TZ: 'UTC' }

const here = (name: string) => fileURLToPath(new URL(name, import.meta.url))
const ROOT = here('../..')
const LAUNCHER = here('./engine-wall.main.ts')
const FILTER = here('./engine-filter.preload.ts')
const PROBE = here('./wall-probe.main.ts')
/** A start takes 0.2 s. A wall that is not up by then counts as failed, and the service executes no code until it is restarted. */
const PROBE_MS = 60_000
/** Where Bun.spawn puts the channel of a child with three standard descriptors. */
const CHANNEL = 3
const OPEN_FILES = 8_192

/** What a program needs to start, and the engine to load. */
const LIBRARIES = ['/lib', '/lib64', '/usr/lib', '/usr/lib64', '/usr/local/lib']
const SYSTEM_FILES = [
  '/etc/ld.so.cache',
  '/etc/localtime',
  '/usr/share/zoneinfo',
  // How many processors and how much memory there is; how much of it the process uses.
  '/sys/devices/system/cpu',
  '/sys/fs/cgroup',
  '/proc/self',
  '/proc/meminfo',
]
/** The service's own code, as far as engines run it. No directory that could hold data. */
const CODE = ['sidecars', 'lake', 'proto', 'package.json', 'tsconfig.json', 'bunfig.toml']

/** A wall of this step. */
export function wallOf(step: WallStep, view: EngineView): Wall {
  return { step, command: (start) => commandOf(step, view, start) }
}

function commandOf(
  step: WallStep,
  view: EngineView,
  { entry, directory, niceness, args = [] }: EngineStart,
): string[] {
  const bun = process.execPath
  if (step === 'none') {
    const nice = Bun.which('nice')
    return [...(nice === null ? [] : [nice, '-n', String(niceness)]), bun, entry, ...args]
  }
  const spec: WallSpec = {
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

/** Packages may have been installed anywhere above the service. */
function modulePaths(): string[] {
  const found: string[] = []
  for (let at = ROOT; ; at = dirname(at)) {
    found.push(join(at, 'node_modules'))
    if (at === dirname(at)) return found.filter((path) => existsSync(path))
  }
}

/**
 * The strongest wall of the mode that works here. Throws NoWall where the mode requires a wall that does not work, and
 * FailedWall where the kernel offers a wall that could not be built: nothing weaker takes its place.
 */
export async function chooseWall(mode: SandboxMode, view: EngineView, log: Log): Promise<Wall> {
  const reasons: string[] = []
  for (const step of WALL_STEPS_OF[mode]) {
    const wall = wallOf(step, view)
    const reason = step === 'none' ? null : await tryOut(wall)
    if (reason !== null) {
      reasons.push(`${step}: ${reason}`)
      if (mode === 'auto' && isOffered(step)) throw new FailedWall(reasons)
      continue
    }
    const fields = reasons.length === 0 ? undefined : { reason: reasons.join('; ') }
    if (step === 'none') log.warn('engine processes run behind no wall but the lock of the engine', fields)
    else log.info(`engine processes run behind: ${step}`, fields)
    return wall
  }
  throw new NoWall(`SANDBOX=required, and engine processes cannot be confined here (${reasons.join('; ')})`)
}

/**
 * Where the lake's files are, on a disk that is shared with the API: they are read in place. It must be there before the
 * first engine starts.
 */
export async function lakePlaces(lakeDir: string | null): Promise<string[]> {
  if (lakeDir === null) return []
  const place = join(resolve(lakeDir), LAKE_PREFIX)
  await mkdir(place, { recursive: true }).catch((error: unknown) => {
    if (!existsSync(place)) throw error
  })
  return [place]
}

/** The configuration asks for a wall that cannot be had here. */
export class NoWall extends Error {}

/** The kernel offers a wall, and engine processes could not be put behind it. The message names no path. */
export class FailedWall extends Error {
  constructor(reasons: readonly string[]) {
    super(`engine processes cannot be confined: ${reasons.join('; ')}`)
  }
}

/** Whether the kernel says that it has all parts of a wall. */
function isOffered(step: WallStep): boolean {
  try {
    const kernel = openKernel()
    return kernel.hasFilters() && (step !== 'landlock' || kernel.hasLandlock())
  } catch (error) {
    if (error instanceof Unavailable) return false
    throw error
  }
}

/** Null: it works. */
async function tryOut(wall: Wall): Promise<string | null> {
  const child = Bun.spawn(
    wall.command({ entry: PROBE, directory: '/nonexistent', niceness: 0, args: [wall.step] }),
    {
      env: ENGINE_ENVIRONMENT,
      cwd: '/',
      stdin: 'ignore',
      stdout: 'ignore',
      stderr: 'pipe',
      timeout: PROBE_MS,
      killSignal: 'SIGKILL',
      // So that the descriptor is there.
      serialization: 'advanced',
      ipc: () => {},
    },
  )
  const [complaint, code] = await Promise.all([new Response(child.stderr).text(), child.exited])
  if (code === 0) return null
  // Anything else may hold paths, and anybody may ask for the reason.
  return /^engine process: (.*)$/m.exec(complaint)?.[1] ?? `it ended with ${child.signalCode ?? code}`
}
