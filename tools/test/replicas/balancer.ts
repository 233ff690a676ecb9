/** HAProxy of the system before the API replicas, configured as docs/replicas.md says. */
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { freePort } from '../../../sidecars/supervisor/ports.ts'
import { installed } from '../../install/apt.ts'
import { endWith } from '../../kit/scratch.ts'
import { until } from '../../kit/until.ts'

const DOCUMENT = join(import.meta.dirname, '..', '..', '..', 'docs', 'replicas.md')
/** The example of the document, from `global` to the last option of the servers. */
const EXAMPLE = /```haproxy\n(.*?)```/s

export interface Balancer {
  url: string
  /** Whether requests may reach the replica on this port, as HAProxy sees it. */
  isUp(port: number): Promise<boolean>
  stop(): Promise<void>
}

const find = () => Bun.which('haproxy', { PATH: `${process.env.PATH}:/usr/sbin` })

/** Starts HAProxy before replicas on these ports. A replica that is not running yet gets no requests. */
export async function startBalancer(directory: string, apiPorts: readonly number[]): Promise<Balancer> {
  const binary = find() ?? (await installed('haproxy', find))
  const [port, statsPort] = [await freePort(), await freePort()]
  const path = join(directory, 'haproxy.cfg')
  await writeFile(path, configuration(await readFile(DOCUMENT, 'utf8'), { port, statsPort, apiPorts }))
  const child = Bun.spawn([binary, '-db', '-f', path], { stdin: 'ignore', stdout: 'ignore', stderr: 'pipe' })
  const errorOutput = new Response(child.stderr).text()
  const stop = async () => {
    cancelCleanup()
    child.kill('SIGKILL')
    await child.exited
  }
  const cancelCleanup = endWith(stop)
  const states = () =>
    fetch(`http://127.0.0.1:${statsPort}/;csv`).then(
      (answer) => answer.text(),
      () => '',
    )
  await until(
    async () => (child.exitCode === null ? states() : Promise.reject(new Error(await errorOutput))),
    (text) => text !== '',
  )
  return {
    url: `http://127.0.0.1:${port}`,
    isUp: async (apiPort) => new RegExp(`^replicas,api-${apiPort},.*,UP,`, 'm').test(await states()),
    stop,
  }
}

/** The documented example with the addresses of this test, and the page that shows the state of each server. */
function configuration(
  document: string,
  { port, statsPort, apiPorts }: { port: number; statsPort: number; apiPorts: readonly number[] },
): string {
  const example = EXAMPLE.exec(document)?.[1]
  if (example === undefined) throw new Error(`${DOCUMENT} has no example for HAProxy`)
  const servers = apiPorts.map((apiPort) => `  server api-${apiPort} 127.0.0.1:${apiPort}`)
  return [
    example.replace(/^ *bind .*$/m, `  bind 127.0.0.1:${port}`).replace(/^ *server api-.*\n/gm, ''),
    ...servers,
    'frontend states',
    `  bind 127.0.0.1:${statsPort}`,
    '  stats enable',
    '  stats uri /',
    '',
  ].join('\n')
}
