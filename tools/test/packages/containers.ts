/** Containers without a daemon: buildah builds images, podman and crun run them, in a store of this test run. */
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { installed } from '../../install/apt.ts'
import { type RunResult, run } from '../../kit/run.ts'
import { endWith } from '../../kit/scratch.ts'

const TOOLS = { buildah: 'buildah', podman: 'podman', crun: 'crun', mmdebstrap: 'mmdebstrap' }
const COMMAND_LIMIT_MS = 5 * 60_000
const STOP_SECONDS = 20
/** Machines of CI may neither raise limits nor make groups of processes, as podman does by default. */
const LIMITS = ['--ulimit=nofile=8192:8192', '--ulimit=nproc=16384:16384']
/**
 * Each command has mounts of its own, because crun refuses the hybrid of both versions of cgroups. Mounts of the store end with
 * the command, too.
 */
const OWN_MOUNTS = [
  'unshare',
  '--mount',
  'sh',
  '-c',
  'umount -R /sys/fs/cgroup && mount -t cgroup2 none /sys/fs/cgroup && exec "$@"',
  'sh',
]

export type Container = {
  name: string
  /** Everything that the container has printed. */
  log: () => string
  /** Resolves with the exit code when the container ends by itself. */
  ended: () => Promise<number>
  /** Runs a command in the container. */
  exec: (command: string[]) => Promise<RunResult>
  /** Sends SIGTERM and waits for the end. */
  stop: () => Promise<{ code: number; seconds: number }>
}

export type Containers = Awaited<ReturnType<typeof openContainers>>

/** Opens an empty store in `folder`. Installs the tools when they are missing. */
export async function openContainers(folder: string) {
  for (const [name, tool] of Object.entries(TOOLS))
    if (!Bun.which(tool)) await installed(name, () => Bun.which(tool))
  await mkdir(folder, { recursive: true })
  const env = await writeSettings(folder)
  const call = (command: string[], limitMs = COMMAND_LIMIT_MS) =>
    run({ command: [...OWN_MOUNTS, ...command], env, limitMs })
  /** Runs a command that must succeed, and returns its output. */
  const must = async (command: string[]) => {
    const { code, output } = await call(command)
    if (code !== 0) throw new Error(`${command.slice(0, 3).join(' ')} ended with code ${code}\n${output}`)
    return output
  }
  const QUIET = ['--network=host', '--cgroups=disabled', '--no-healthcheck']
  /** Runs a shell command in a new container of an image. */
  const shell = (image: string, text: string) =>
    call(['podman', 'run', '--rm', ...QUIET, ...LIMITS, '--entrypoint=sh', image, '-c', text])
  return { call, must, shell, start: (options: StartOptions) => start(options, { call, env }) }
}

type StartOptions = {
  name: string
  image: string
  /** True for a container with the rights of a machine, such as one that boots systemd. */
  isMachine?: boolean
  options: string[]
  args?: string[]
}

/** Starts a container in the network of this machine. */
function start(
  { name, image, options, isMachine = false, args = [] }: StartOptions,
  { call, env }: { call: (command: string[]) => Promise<RunResult>; env: Record<string, string> },
): Container {
  const rights = isMachine ? ['--privileged', '--systemd=always', '--pids-limit=0'] : ['--cgroups=disabled']
  const shared = ['--name', name, '--network=host', '--health-interval=disable', ...LIMITS, ...rights]
  const command = ['podman', 'run', ...shared, ...options, image, ...args]
  const all = { ...process.env, ...env }
  const child = Bun.spawn([...OWN_MOUNTS, ...command], {
    env: all,
    stdin: 'ignore',
    stdout: 'pipe',
    stderr: 'pipe',
  })
  let output = ''
  const collect = async (stream: ReadableStream<Uint8Array>) => {
    const decoder = new TextDecoder()
    for await (const chunk of stream) output += decoder.decode(chunk, { stream: true })
  }
  const drained = Promise.all([collect(child.stdout), collect(child.stderr)])
  const removal = ['podman', 'rm', '--force', '--volumes', '--time=1', name]
  // `run` starts nothing while the test run ends.
  const cancelCleanup = endWith(async () => void Bun.spawnSync([...OWN_MOUNTS, ...removal], { env: all }))
  const stop = async () => {
    cancelCleanup()
    const startedMs = performance.now()
    if (child.exitCode === null) await call(['podman', 'stop', '-t', String(STOP_SECONDS), name])
    const code = await child.exited
    const seconds = (performance.now() - startedMs) / 1_000
    await drained
    await call(removal)
    return { code, seconds }
  }
  const exec = (inside: string[]) => call(['podman', 'exec', name, ...inside])
  return { name, log: () => output, ended: () => child.exited, exec, stop }
}

async function writeSettings(folder: string): Promise<Record<string, string>> {
  const storage = join(folder, 'storage.conf')
  const engine = join(folder, 'containers.conf')
  const filesystems = await Bun.file('/proc/filesystems').text()
  const driver = filesystems.includes('overlay') ? 'overlay' : 'vfs'
  await writeFile(
    storage,
    `[storage]\ndriver = "${driver}"\ngraphroot = "${folder}/graph"\nrunroot = "${folder}/run"\n`,
  )
  await writeFile(
    engine,
    `[engine]\ncgroup_manager = "cgroupfs"\nevents_logger = "none"\nruntime = "crun"\ntmp_dir = "${folder}/tmp"\n`,
  )
  return { CONTAINERS_STORAGE_CONF: storage, CONTAINERS_CONF: engine, BUILDAH_ISOLATION: 'chroot' }
}
