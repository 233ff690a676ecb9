// A Sail server on this machine: one process for one run, in a sandbox. Sail reads its catalog and its credentials from its
// environment at its start. Source: Sail, configuration.

import { bytesOf, type Cost, cpuSecondsOf, memoryOf } from '../core/process-usage.ts'
import { type ProgramSandboxStep, programCommand } from '../sandbox/engine-sandbox.ts'
import type { Python } from '../sandbox/python.ts'
import { eachLine } from '../supervisor/lines.ts'
import { holdPort } from '../supervisor/ports.ts'
import type { CatalogAccess } from './catalog-access.ts'
import { CATALOG } from './dialect.ts'
import { SparkLost } from './failure.ts'
import { openNetwork } from './network.ts'

/** A start takes 0.1 s; a loaded machine may need this long. */
const START_MS = 30_000
const HOST = '127.0.0.1'
const NICENESS = 5
/** Memory of the process beside the pool, which holds the rows of sorts, joins and groups. */
const POOL_SHARE = 0.7

interface SailOptions {
  python: Python
  sandbox: ProgramSandboxStep
  /** The program that makes a network for Sail alone; null: Sail listens on a port of this machine. */
  networkProgram: string | null
  /** A directory of this process alone, for spilled rows. It exists. */
  directory: string
  access: CatalogAccess
  memoryBytes: number
  threads: number
  /** Bytes of spilled rows. */
  spillBytes: number
  /** Joins sort their rows, because a hash table cannot spill. */
  isLarge: boolean
}

interface SailServer {
  url: string
  /** The socket that leads to the address; null: the address is open to every user of the machine (`SANDBOX=off`). */
  socket: string | null
  /** Rejects with SparkLost when the process ends. */
  ended: Promise<never>
  /** The cost of the process so far. */
  cost(): Cost
  stop(): Promise<void>
}

/** Starts the server and waits until it listens. Throws SparkLost, and the signal's reason. */
export async function startSail(options: SailOptions, signal: AbortSignal): Promise<SailServer> {
  const { python, sandbox, directory, access, networkProgram } = options
  const network = networkProgram === null ? null : await openNetwork(networkProgram, access.uri)
  const held = network === null ? await holdPort(HOST) : null
  const port = network?.port ?? held?.port ?? 0
  const command = programCommand(sandbox, {
    command: [
      python.executable,
      '-I',
      '-m',
      'pysail',
      'spark',
      'server',
      '--ip',
      HOST,
      '--port',
      String(port),
    ],
    directory,
    niceness: NICENESS,
    readable: python.readable,
    ports: { listen: [port], connect: [...new Set([access.uri, access.endpoint].map(portOf))] },
  })
  await held?.release()
  const child = Bun.spawn(network?.within(python.executable, command) ?? command, {
    cwd: directory,
    env: environmentOf(options),
    stdin: 'ignore',
    stdout: 'ignore',
    stderr: 'pipe',
  })
  const listening = Promise.withResolvers<void>()
  let lastLine = ''
  /** With a network of its own, Sail is not the process that was started. */
  let pid = child.pid
  void eachLine(child.stderr, (line) => {
    const [, id] = network === null ? [] : (/^process (\d+)$/.exec(line) ?? [])
    if (id !== undefined) pid = Number(id)
    else if (line.includes(`${HOST}:${port}`)) listening.resolve()
    else lastLine = line
  })
  const ended = child.exited.then((code) => {
    throw new SparkLost(`Sail ended with ${child.signalCode ?? `code ${code}`}: ${lastLine.slice(0, 500)}`)
  })
  ended.catch(() => {})
  const stop = async () => {
    child.kill('SIGKILL')
    await child.exited
    await network?.close()
  }
  const late = AbortSignal.timeout(START_MS)
  const given = AbortSignal.any([signal, late])
  const aborted = Promise.withResolvers<never>()
  const abort = () => aborted.reject(given.reason)
  given.addEventListener('abort', abort, { once: true })
  try {
    given.throwIfAborted()
    await Promise.race([listening.promise, ended, aborted.promise])
  } catch (error) {
    await stop()
    signal.throwIfAborted()
    throw late.aborted ? new SparkLost('Sail did not start in time') : error
  } finally {
    given.removeEventListener('abort', abort)
  }
  const cost = () => ({
    cpuSeconds: cpuSecondsOf(pid) ?? 0,
    ...bytesOf(pid),
    peakMemoryBytes: memoryOf(pid).peakBytes,
  })
  return { url: `http://${HOST}:${port}`, socket: network?.socket ?? null, ended, cost, stop }
}

function environmentOf({ access, directory, memoryBytes, threads, spillBytes, isLarge }: SailOptions) {
  const catalog = `[{name="${CATALOG}", type="iceberg-rest", uri="${access.uri}", warehouse="${access.warehouse}", bearer_access_token="${access.token}"}]`
  return {
    HOME: directory,
    TMPDIR: directory,
    // The line about the address is an information.
    RUST_LOG: 'warn,sail_cli=info',
    SAIL_CATALOG__LIST: catalog,
    SAIL_CATALOG__DEFAULT_CATALOG: CATALOG,
    SAIL_EXECUTION__DEFAULT_PARALLELISM: String(threads),
    SAIL_OPTIMIZER__PREFER_HASH_JOIN: String(!isLarge),
    SAIL_RUNTIME__MEMORY_POOL__TYPE: 'fair',
    SAIL_RUNTIME__MEMORY_POOL__FAIR__MAX_SIZE: String(Math.floor(memoryBytes * POOL_SHARE)),
    SAIL_RUNTIME__TEMPORARY_FILES__PATHS: JSON.stringify([directory]),
    SAIL_RUNTIME__TEMPORARY_FILES__MAX_SIZE: String(spillBytes),
    AWS_ENDPOINT: access.endpoint,
    AWS_ALLOW_HTTP: 'true',
    AWS_REGION: access.region,
    AWS_ACCESS_KEY_ID: access.accessKeyId,
    AWS_SECRET_ACCESS_KEY: access.secretAccessKey,
    AWS_SESSION_TOKEN: access.sessionToken,
  }
}

function portOf(address: string): number {
  const { port, protocol } = new URL(address)
  return port === '' ? (protocol === 'https:' ? 443 : 80) : Number(port)
}
