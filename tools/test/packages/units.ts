/** The systemd units: checked by systemd itself, then started by systemd as the first process of a container. */
import { randomBytes } from 'node:crypto'
import { chmod, mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { freePort } from '../../../sidecars/supervisor/ports.ts'
import type { Tally } from '../../kit/tally.ts'
import type { TestPostgres } from '../../service/test-postgres.ts'
import type { Container, Containers } from './containers.ts'
import { journey, untilAnswers } from './journey.ts'
import { type Env, type PackagedPart, type PartName, problemsOf, SECRETS } from './variables.ts'

const UNITS = join(import.meta.dirname, '..', '..', 'packages', 'systemd')
const PARTS = ['runner', 'query', 'api'] as const
/** The exposure that `systemd-analyze security` computes, in tenths. Namespaces and mounts of bubblewrap cost the runner. */
const EXPOSURE_MAX: Record<PartName, number> = { api: 20, query: 25, runner: 35 }
const MACHINE = 'sluice-machine'
const BOOT_LIMIT_MS = 60_000
const POLL_MS = 100
const STOP_SECONDS_MAX = 15

/** Checks the variables of the examples, then the units. `directory` is the unpacked archive. */
export async function judgeUnits(
  tally: Tally,
  options: {
    containers: Containers
    image: string
    directory: string
    folder: string
    database: TestPostgres
  },
) {
  const { containers, image, directory, folder, database } = options
  await tally.check('the example variables of the units are known and fit together', async () => {
    const problems = problemsOf(await Promise.all(PARTS.map(examplePart)))
    return problems.length === 0 ? undefined : problems.join('\n')
  })
  const url = `http://127.0.0.1:${await freePort()}`
  const key = randomBytes(16).toString('hex')
  let machine: Container | undefined
  const systemctl = async (...args: string[]) => {
    if (machine === undefined) throw new Error('systemd does not run')
    const { code, output } = await machine.exec(['systemctl', ...args])
    return { code, output: output.trim() }
  }
  await tally.check('systemd boots in a container with the units', async () => {
    await buildMachine(containers, { image, folder })
    const etc = await writeVariables(folder, { url, key, databaseUrl: database.url })
    const volumes = [`--volume=${directory}:/opt/sluice:ro`, `--volume=${etc}:/etc/sluice:ro`]
    machine = containers.start({ name: MACHINE, image: MACHINE, options: volumes, isMachine: true })
    const deadline = performance.now() + BOOT_LIMIT_MS
    while (!/running|degraded/.test((await systemctl('is-system-running')).output)) {
      if (performance.now() > deadline) return machine.log()
      await Bun.sleep(POLL_MS)
    }
  })
  for (const part of PARTS)
    await tally.check(`systemd-analyze accepts the ${part} unit and finds little exposure`, async () => {
      const file = `/etc/systemd/system/sluice-${part}.service`
      const threshold = `--threshold=${EXPOSURE_MAX[part]}`
      const verified = await machine?.exec(['systemd-analyze', 'verify', file])
      if (verified?.code !== 0 || verified.output !== '') return verified?.output ?? 'no machine'
      const rated = await machine?.exec(['systemd-analyze', 'security', '--offline=true', threshold, file])
      const last = rated?.output.split('\n').at(-1) ?? ''
      console.log(`  ${last.replace(/[^\x20-\x7e]/g, '').trim()}`)
      return rated?.code === 0 ? undefined : rated?.output
    })
  await tally.check('the units start and become ready', async () => {
    const started = await systemctl('start', ...PARTS.map((part) => `sluice-${part}`))
    if (started.code !== 0) return `${started.output}\n${await journalOf(machine)}`
    await untilAnswers(`${url}/health/ready`).catch(async (error) => {
      throw new Error(`${error}\n${await journalOf(machine)}`)
    })
  })
  await tally.check('Python runs in bubblewrap inside the restrictions of the unit', async () => {
    const { python, engines } = (await (await fetch(`${url}/health/ready`)).json()) as Record<string, Env>
    if (python?.sandbox === 'bubblewrap' && engines?.runner === 'landlock' && engines.query === 'landlock')
      return
    return `${JSON.stringify({ python, engines })}\n${await journalOf(machine)}`
  })
  await tally.check('pipelines run through the API of the units', () => journey(url, key))
  await tally.check('a killed runner is started again', async () => {
    await systemctl('kill', '--signal=KILL', 'sluice-runner')
    const deadline = performance.now() + BOOT_LIMIT_MS
    const hasRestarted = async () =>
      (await systemctl('show', '-P', 'NRestarts', 'sluice-runner')).output === '1' &&
      (await systemctl('is-active', 'sluice-runner')).output === 'active'
    while (!(await hasRestarted())) {
      if (performance.now() > deadline) return journalOf(machine)
      await Bun.sleep(POLL_MS)
    }
  })
  await tally.check('the units stop in time without a failure', async () => {
    const startedMs = performance.now()
    await systemctl('stop', ...PARTS.map((part) => `sluice-${part}`))
    const seconds = (performance.now() - startedMs) / 1_000
    const results = await Promise.all(
      PARTS.map((part) => systemctl('show', '-P', 'Result', `sluice-${part}`)),
    )
    const failed = results.filter(({ output }) => output !== 'success')
    return seconds < STOP_SECONDS_MAX && failed.length === 0
      ? undefined
      : `${seconds.toFixed(1)} s\n${await journalOf(machine)}`
  })
  await machine?.stop()
}

/** The image with systemd, and with the units where an operator puts them. */
async function buildMachine({ must }: Containers, { image, folder }: { image: string; folder: string }) {
  const containerfile = join(folder, 'Containerfile')
  await writeFile(
    containerfile,
    `FROM ${image}
USER 0
RUN apt-get update && apt-get install -y --no-install-recommends systemd
COPY *.service /etc/systemd/system/
COPY sluice.sysusers.conf /etc/sysusers.d/sluice.conf
RUN systemd-sysusers
HEALTHCHECK NONE
ENTRYPOINT ["/lib/systemd/systemd"]
`,
  )
  await must([
    'buildah',
    'bud',
    '--quiet',
    '--pull-never',
    '--format=docker',
    '-f',
    containerfile,
    '-t',
    MACHINE,
    UNITS,
  ])
}

/** Writes the files of variables that an operator would write, for one machine without S3. */
async function writeVariables(
  folder: string,
  { url, key, databaseUrl }: { url: string; key: string; databaseUrl: string },
): Promise<string> {
  const [runnerPort, queryPort] = [await freePort(), await freePort()]
  const shared = `HOST=127.0.0.1\nSIDECAR_TOKEN=${SECRETS.SIDECAR_TOKEN}\n`
  const sidecar = (port: number) => `${shared}PORT=${port}\nAPI_URLS=${url}\nSANDBOX=required\n`
  const addresses = `RUNNER_URLS=http://127.0.0.1:${runnerPort}\nQUERY_URLS=http://127.0.0.1:${queryPort}\n`
  const files: Record<PartName, string> = {
    api: `${shared}PORT=${new URL(url).port}\nDATABASE_URL=${databaseUrl}\nPLATFORM_API_KEY=${key}\n${addresses}`,
    runner: sidecar(runnerPort),
    query: sidecar(queryPort),
  }
  const etc = join(folder, 'etc')
  await mkdir(etc, { recursive: true })
  for (const [part, text] of Object.entries(files)) {
    await writeFile(join(etc, `${part}.env`), text)
    await chmod(join(etc, `${part}.env`), 0o600)
  }
  return etc
}

/** A unit with its example of variables. Empty ones are the operator's secrets. */
async function examplePart(part: PartName): Promise<PackagedPart> {
  const unit = await readFile(join(UNITS, `sluice-${part}.service`), 'utf8')
  const example = await readFile(join(UNITS, `${part}.env.example`), 'utf8')
  const lines = [
    ...unit.matchAll(/^Environment=(\w+)=(.*)$/gm),
    ...example.matchAll(/^#? ?([A-Z][A-Z0-9_]+)=(.*)$/gm),
  ]
  const env = Object.fromEntries(
    lines.map(([, name = '', value = '']) => [name, value || (SECRETS[name] ?? '')]),
  )
  return { part, title: `unit ${part}`, env, own: Object.keys(env) }
}

async function journalOf(machine: Container | undefined): Promise<string> {
  return (
    (await machine?.exec(['journalctl', '--no-pager', '-n', '60', '-u', 'sluice-*']))?.output ?? 'no machine'
  )
}
