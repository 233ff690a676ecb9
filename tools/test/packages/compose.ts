/** compose.yaml: parsed by the parser of the Compose Specification, its variables by the service. */
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { goProgram } from '../../install/go.ts'
import { run } from '../../kit/run.ts'
import type { Tally } from '../../kit/tally.ts'
import { VERSION as S3_SERVER_VERSION } from '../../service/s3-server.ts'
import { type Env, type PackagedPart, problemsOf, SECRETS } from './variables.ts'

const FOLDER = join(import.meta.dirname, '..', '..', 'packages')
const PARSER = { source: 'github.com/compose-spec/compose-go/v2/cmd', version: 'v2.16.2' }
const LIMIT_MS = 60_000

type Service = {
  image: string
  command?: string[]
  environment?: Env
  read_only?: boolean
  cap_drop?: string[]
  depends_on?: Record<string, { condition: string }>
  healthcheck?: { test: string[] }
  ports?: { host_ip?: string }[]
}

/** Checks the file. `image` are the variables that the image sets. */
export async function judgeCompose(
  tally: Tally,
  { folder, version, image }: { folder: string; version: string; image: Env },
) {
  const parser = await goProgram('compose-spec', PARSER)
  let services: Record<string, Service> = {}
  const text = await readFile(join(FOLDER, 'compose.yaml'), 'utf8')
  await tally.check('the parser of the Compose Specification accepts the file', async () => {
    const file = join(folder, 'compose.yaml')
    await writeFile(file, withValues(text))
    const { code, output } = await run({ command: [parser, '-format', 'json', file], limitMs: LIMIT_MS })
    if (code !== 0) return output
    services = JSON.parse(output).services
    return undefined
  })
  await tally.check('the parser refuses a file with an unknown field', async () => {
    const file = join(folder, 'wrong.yaml')
    await writeFile(file, withValues(text).replace('read_only: true', 'readonly: true'))
    const { code, output } = await run({ command: [parser, file], limitMs: LIMIT_MS })
    return code !== 0 && output.includes('readonly') ? undefined : output
  })
  await tally.check('every secret is required, and the example gives it no value', async () => {
    const example = await readFile(join(FOLDER, 'compose.env.example'), 'utf8')
    const empty = [...example.matchAll(/^(\w+)=$/gm)].map(([, name]) => name)
    const required = new Set([...text.matchAll(/\$\{(\w+):\?/g)].map(([, name]) => name))
    return empty.length === 4 && empty.every((name) => required.delete(name)) && required.size === 0
      ? undefined
      : `${empty} ${[...required]}`
  })
  const own = () => Object.entries(services).filter(([, { image: name }]) => name.startsWith('sluice:'))
  await tally.check('the variables of the services are known and fit together', async () => {
    const parts = own().map(([title, { command = [], environment = {} }]) => ({
      part: command[0] as PackagedPart['part'],
      title,
      env: { ...image, ...environment },
      own: Object.keys(environment),
    }))
    const problems = problemsOf(parts)
    return problems.length === 0 ? undefined : problems.join('\n')
  })
  await tally.check('there are two replicas, and every service is restricted and checked', async () => {
    const replicas = own().filter(([, { command }]) => command?.[0] === 'api')
    if (replicas.length !== 2) return `${replicas.length} replicas`
    for (const [name, { read_only, cap_drop, healthcheck }] of own())
      if (read_only !== true || cap_drop?.[0] !== 'ALL' || healthcheck === undefined) return name
    const open = Object.entries(services).filter(([, { ports = [] }]) =>
      ports.some(({ host_ip }) => host_ip !== '127.0.0.1'),
    )
    if (open.length > 0) return `${open.map(([name]) => name)} listens beyond loopback`
    const waits = replicas.flatMap(([, { depends_on = {} }]) => Object.values(depends_on))
    return waits.every(({ condition }) => condition === 'service_healthy') && waits.length === 10
      ? undefined
      : JSON.stringify(waits)
  })
  await tally.check('the images have the versions that this project tests', async () => {
    const names = Object.values(services).map((service) => service.image)
    const expected = [`sluice:${version}`, `docker.io/versity/versitygw:${S3_SERVER_VERSION}`]
    return expected.every((name) => names.includes(name)) && names.every((name) => /:v?\d/.test(name))
      ? undefined
      : names.join('\n')
  })
}

/**
 * The file with values for required variables and the defaults of others. The command of the parser passes no environment to the
 * file, so `${...}` would always be empty.
 */
const withValues = (text: string) =>
  text
    .replace(/\$\{(\w+):\?[^}]*\}/g, (_, name: string) => SECRETS[name] ?? '')
    .replace(/\$\{\w+:-([^}]*)\}/g, (_, value: string) => value)
