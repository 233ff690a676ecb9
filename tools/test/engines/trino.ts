/** A Trino server on loopback, with only its Iceberg connector. */
import { existsSync } from 'node:fs'
import { mkdir, mkdtemp, rename, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { freePort } from '../../../sidecars/supervisor/ports.ts'
import { fromMaven } from '../../install/maven.ts'
import { run } from '../../kit/run.ts'
import { endWith } from '../../kit/scratch.ts'

/** The newest version on Maven Central. */
const VERSION = '476'
const EXTRACT_LIMIT_MS = 5 * 60_000
const READY_LIMIT_MS = 4 * 60_000
const POLL_MS = 500

const tools = join(import.meta.dirname, '..', '..', '..', '.bun', 'tools')
const home = join(tools, `trino-${VERSION}`)

export interface Trino {
  port: number
  stop(): Promise<void>
}

/** Downloads the server (821 MB) and keeps the part that has the Iceberg connector. */
export async function installTrino(): Promise<void> {
  if (existsSync(home)) return
  const archive = await fromMaven({
    group: 'io.trino',
    name: 'trino-server',
    version: VERSION,
    packaging: 'tar.gz',
  })
  await mkdir(tools, { recursive: true })
  const folder = await mkdtemp(join(tools, 'trino-'))
  // Files of the connector are hard links to files of other connectors, so tar must extract all.
  const { code, output } = await run({
    command: ['tar', '-xzf', archive, '-C', folder, '--strip-components=1'],
    limitMs: EXTRACT_LIMIT_MS,
  })
  if (code !== 0) throw new Error(`tar ended with code ${code}\n${output}`)
  const small = await mkdtemp(join(tools, 'trino-'))
  await mkdir(join(small, 'plugin'))
  await rename(join(folder, 'lib'), join(small, 'lib'))
  await rename(join(folder, 'plugin', 'iceberg'), join(small, 'plugin', 'iceberg'))
  await rm(folder, { recursive: true })
  await rename(small, home)
}

/** Starts Trino with this Java, version 24 or newer. Clients create its catalogs. */
export async function startTrino(java: string): Promise<Trino> {
  const port = await freePort()
  const data = await mkdtemp(join(tmpdir(), 'trino-'))
  const config = join(data, 'config.properties')
  const settings = {
    coordinator: true,
    'node-scheduler.include-coordinator': true,
    'http-server.http.port': port,
    'discovery.uri': `http://127.0.0.1:${port}`,
    'node.bind-ip': '127.0.0.1',
    'node.internal-address': '127.0.0.1',
    'catalog.management': 'dynamic',
    'catalog.store': 'memory',
  }
  await writeFile(
    config,
    Object.entries(settings)
      .map(([name, value]) => `${name}=${value}\n`)
      .join(''),
  )
  const properties = {
    'node.environment': 'test',
    'node.id': 'judge',
    'node.data-dir': data,
    'plugin.dir': join(home, 'plugin'),
    config,
  }
  const command = [
    java,
    '-Xmx3G',
    '-XX:-UsePerfData',
    '-Djdk.attach.allowAttachSelf=true',
    '--sun-misc-unsafe-memory-access=allow',
    ...Object.entries(properties).map(([name, value]) => `-D${name}=${value}`),
    '-cp',
    join(home, 'lib', '*'),
    'io.trino.server.TrinoServer',
  ]
  const server = Bun.spawn(command, { stdout: 'ignore', stderr: Bun.file(join(data, 'log')) })
  const stop = async () => {
    cancelCleanup()
    server.kill('SIGKILL')
    await server.exited
    await rm(data, { recursive: true, force: true })
  }
  const cancelCleanup = endWith(stop)
  const giveUpAt = performance.now() + READY_LIMIT_MS
  while (!(await isReady(port))) {
    if (server.exitCode !== null || performance.now() > giveUpAt) {
      const log = await Bun.file(join(data, 'log')).text()
      await stop()
      throw new Error(`Trino did not become ready\n${log.slice(-4_000)}`)
    }
    await Bun.sleep(POLL_MS)
  }
  return { port, stop }
}

async function isReady(port: number): Promise<boolean> {
  const answer = await fetch(`http://127.0.0.1:${port}/v1/info`).catch(() => undefined)
  return answer?.ok === true && (await answer.json()).starting === false
}
