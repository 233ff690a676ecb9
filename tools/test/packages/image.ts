/** Builds the image as `docker build` does, from base images with the same names, and runs it. */
import { copyFile, mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { freePort } from '../../../sidecars/supervisor/ports.ts'
import type { Tally } from '../../kit/tally.ts'
import type { TestPostgres } from '../../service/test-postgres.ts'
import type { Container, Containers } from './containers.ts'
import { journey, untilAnswers } from './journey.ts'
import { type Env, SECRETS } from './variables.ts'

const root = join(import.meta.dirname, '..', '..', '..')
const CONTAINERFILE = 'tools/packages/Containerfile'
const CERTIFICATES = '/etc/ssl/certs/ca-certificates.crt'
const USER_ID = 10_001
const IMAGE_BYTES_MAX = 400e6
const STOP_SECONDS_MAX = 15
/** The same restrictions as in compose.yaml and in the chart. */
const RESTRICTED = ['--read-only', '--tmpfs=/tmp', '--cap-drop=all', '--security-opt=no-new-privileges']

/** Returns the default of a build argument of the Containerfile. */
async function argument(name: string): Promise<string> {
  const found = new RegExp(`^ARG ${name}=(\\S+)$`, 'm').exec(
    await readFile(join(root, CONTAINERFILE), 'utf8'),
  )
  if (found?.[1] === undefined) throw new Error(`the Containerfile has no argument ${name}`)
  return found[1]
}

/** The version of Bun in the builder of the Containerfile. */
export const builderVersion = async () => /:([\d.]+)-slim$/.exec(await argument('BUILDER'))?.[1]

/**
 * Makes the two base images under their names, because no registry of images can be reached. Debian comes from its packages, and
 * Bun is this binary on top. Builders here trust the same certificates as this machine.
 */
export async function makeBaseImages({ must }: Containers, folder: string): Promise<void> {
  const [base, builder] = [await argument('BASE'), await argument('BUILDER')]
  const suite = /:(\w+)-slim$/.exec(base)?.[1]
  if (suite === undefined) throw new Error(`${base} names no suite of Debian`)
  const archive = join(folder, 'debian.tar')
  await must(['mmdebstrap', '--variant=minbase', suite, archive])
  await must(['podman', 'import', '--quiet', archive, base])
  const context = join(folder, 'bun')
  await mkdir(context, { recursive: true })
  await copyFile(process.execPath, join(context, 'bun'))
  await copyFile(CERTIFICATES, join(context, 'certificates.crt'))
  await writeFile(
    join(context, 'Containerfile'),
    `FROM ${base}
COPY bun /usr/local/bin/bun
COPY certificates.crt ${CERTIFICATES}
ENV NODE_EXTRA_CA_CERTS=${CERTIFICATES}
`,
  )
  await must(['buildah', 'bud', '--quiet', '--pull-never', '-t', builder, context])
}

/** Builds the image from this checkout. */
export async function buildImage({ must }: Containers, name: string): Promise<void> {
  const ignored = ['--ignorefile', `${root}/${CONTAINERFILE}.dockerignore`]
  const options = ['--quiet', '--pull-never', '--format=docker', ...ignored]
  await must(['buildah', 'bud', ...options, '-f', `${root}/${CONTAINERFILE}`, '-t', name, root])
}

/** Facts of a built image, and the variables that it sets. */
export async function inspectImage({ must }: Containers, name: string) {
  const [facts] = JSON.parse(await must(['podman', 'image', 'inspect', name]))
  const env = Object.fromEntries((facts.Config.Env as string[]).map((line) => line.split(/=(.*)/s)))
  return { size: facts.Size as number, user: facts.Config.User as string, env: env as Env }
}

/** Checks the image at rest, then a service of three containers. */
export async function judgeImage(
  tally: Tally,
  { containers, image, database }: { containers: Containers; image: string; database: TestPostgres },
): Promise<{ metrics: string }> {
  const running: Container[] = []
  let metrics = ''
  const url = `http://127.0.0.1:${await freePort()}`
  await tally.check('the image is small and names a user by number', async () => {
    const { size, user } = await inspectImage(containers, image)
    tally.note(`Image: ${(size / 1e6).toFixed(0)} MB`)
    return size < IMAGE_BYTES_MAX && user === `${USER_ID}:${USER_ID}` ? undefined : `${size} bytes, ${user}`
  })
  await tally.check('the image contains no test, no compiler and no package manager of Node', async () => {
    const unwanted = ['*.test.ts', '*.ts', 'node', 'npm', 'bun', 'gcc', 'cc', 'make']
    const search = `find / -xdev -type f \\( ${unwanted.map((name) => `-name '${name}'`).join(' -o ')} \\)`
    const { output } = await containers.shell(image, `${search} 2>/dev/null`)
    return output === '' ? undefined : output
  })
  await tally.check('a container without a key refuses to serve other machines', async () => {
    const env = ['-e', `DATABASE_URL=${database.url}`, '-e', `PORT=${await freePort()}`]
    const container = containers.start({ name: 'sluice-open', image, options: [...RESTRICTED, ...env] })
    const code = await container.ended()
    await container.stop()
    return code === 78 && container.log().includes('PLATFORM_API_KEY')
      ? undefined
      : `code ${code}\n${container.log()}`
  })
  await tally.check('three restricted containers become ready', async () => {
    running.push(...(await startParts(containers, { image, url, databaseUrl: database.url })))
    await untilAnswers(`${url}/health/ready`).catch((error) => {
      throw new Error(`${error}\n${running.map(({ log }) => log()).join('\n')}`)
    })
    return undefined
  })
  await tally.check('a pipeline in SQL and one in Python run through the API', () =>
    journey(url, SECRETS.PLATFORM_API_KEY),
  )
  await tally.check('the health check of every container passes', async () => {
    for (const { name } of running) {
      const { code, output } = await containers.call(['podman', 'healthcheck', 'run', name])
      if (code !== 0) return `${name}: ${output}`
    }
  })
  await tally.check('a health check fails when the token is wrong', async () => {
    const runner = running.find(({ name }) => name === 'sluice-runner')
    const result = await runner?.exec([
      'env',
      `SIDECAR_TOKEN=${'x'.repeat(32)}`,
      'sluice',
      'health',
      'runner',
    ])
    return result?.code === 1 ? undefined : `code ${result?.code}: ${result?.output}`
  })
  await tally.check('no process is root, and no process can write the root', async () => {
    for (const { name, exec } of running) {
      const { output } = await exec([
        'sh',
        '-c',
        'id -u; grep -h "^CapEff\\|^NoNewPrivs" /proc/[0-9]*/status | sort -u; touch /opt/sluice/x /etc/x /x 2>&1; touch /var/lib/sluice/x /tmp/x && echo state',
      ])
      const lines = output.split('\n')
      const refused = lines.filter((line) => line.endsWith('Read-only file system')).length
      const isConfined =
        lines[0] === String(USER_ID) &&
        output.includes('CapEff:\t0000000000000000\nNoNewPrivs:\t1') &&
        !output.includes('NoNewPrivs:\t0')
      if (!isConfined || refused !== 3 || lines.at(-1) !== 'state') return `${name}\n${output}`
    }
  })
  await tally.check('the metrics of the API can be read', async () => {
    metrics = await (await fetch(`${url}/metrics`)).text()
    return metrics.includes('sluice_') ? undefined : metrics
  })
  await tally.check('SIGTERM ends every container in time with code 0', async () => {
    for (const container of running.splice(0).reverse()) {
      const { code, seconds } = await container.stop()
      if (code !== 0 || seconds > STOP_SECONDS_MAX)
        return `${container.name}: code ${code} after ${seconds.toFixed(1)} s\n${container.log()}`
    }
  })
  return { metrics }
}

/** Starts runner, query service and API, on loopback. */
async function startParts(
  containers: Containers,
  { image, url, databaseUrl }: { image: string; url: string; databaseUrl: string },
): Promise<Container[]> {
  const [runnerPort, queryPort] = [await freePort(), await freePort()]
  const shared: Env = { HOST: '127.0.0.1', SIDECAR_TOKEN: SECRETS.SIDECAR_TOKEN ?? '' }
  const parts = [
    { part: 'runner', env: { PORT: String(runnerPort), API_URLS: url, RUNNER_GRPC_PORT: 'none' } },
    { part: 'query', env: { PORT: String(queryPort), API_URLS: url, QUERY_GRPC_PORT: 'none' } },
    {
      part: 'api',
      env: {
        PORT: new URL(url).port,
        DATABASE_URL: databaseUrl,
        PLATFORM_API_KEY: SECRETS.PLATFORM_API_KEY ?? '',
        RUNNER_URLS: `http://127.0.0.1:${runnerPort}`,
        QUERY_URLS: `http://127.0.0.1:${queryPort}`,
      },
    },
  ]
  return parts.map(({ part, env }) => {
    const variables = Object.entries({ ...shared, ...env }).flatMap(([name, value]) => [
      '-e',
      `${name}=${value}`,
    ])
    const health = part === 'api' ? [] : [`--health-cmd=sluice health ${part}`]
    return containers.start({
      name: `sluice-${part}`,
      image,
      options: [...RESTRICTED, ...health, ...variables],
      args: [part],
    })
  })
}
