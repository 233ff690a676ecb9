/** Static checks, which need no execution of the code. */
import { cp, mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, relative } from 'node:path'
import { run } from '../kit/run.ts'
import type { Tally } from '../kit/tally.ts'
import { coverageProblems } from './coverage.ts'
import { sourceFiles } from './folders.ts'
import { messageProblems } from './messages.ts'
import { openApiDrift } from './openapi.ts'
import { statechartDrift } from './statecharts.ts'
import { sizeOf, treeProblems } from './structure.ts'
import { wordFaults } from './words.ts'

const root = join(import.meta.dirname, '..', '..')
/** The time limit of one command. On a busy machine `tsc` takes minutes, so only a command that hangs exceeds the limit. */
const LIMIT_MS = 600_000
/** Several checkers check the shared types again: 51 s of CPU with four of them, 21 s with one. */
const ONE_CHECKER = ['--checkers', '1']
/** Local plugins are found on the PATH. */
const env = { PATH: `${join(root, 'node_modules', '.bin')}:${process.env.PATH}` }

export async function runChecks(tally: Tally) {
  tally.heading('Checks')
  const checks: Record<string, () => Promise<string | undefined>> = {
    'types (tsc)': () => succeeds(['tsc', '--noEmit', ...ONE_CHECKER]),
    'format and lint (biome)': () => succeeds(['biome', 'check', '.']),
    'protocol style (buf lint)': () => succeeds(['buf', 'lint'], 'proto'),
    'the protocol is compatible with its last release (buf breaking)': () =>
      succeeds(['buf', 'breaking', '--against', 'released.binpb'], 'proto'),
    'proto/gen matches the output of buf': () => withTemporaryDirectory(protoDrift),
    'migrations match the schema': () => withTemporaryDirectory(migrationDrift),
    'docs/statecharts match the machines': drawingDrift,
    'docs/openapi.json matches the routes': openApiDrift,
    'every row of e2e/COVERAGE.md has a test': coverageProblems,
    'only stores contain SQL, and libraries are used as documented': structure,
    'sentences are short and name their subject': async () => (await wordFaults([])).join('\n') || undefined,
    'each text of docs/messages.md stands in the source': messageProblems,
    'bun.lock records no download address': lockfileAddresses,
  }
  await Promise.all(Object.entries(checks).map(([title, verify]) => tally.check(title, verify)))
}

async function succeeds(command: string[], folder = '.') {
  const { code, output, isLate } = await run({ command, cwd: join(root, folder), env, limitMs: LIMIT_MS })
  if (isLate) return `took longer than ${LIMIT_MS / 1000} s\n${output}`
  return code === 0 ? undefined : output
}

async function protoDrift(temporary: string) {
  const problem = await succeeds(['buf', 'generate', '--output', temporary], 'proto')
  if (problem !== undefined) return problem
  const [committed, generated] = [join(root, 'proto', 'gen'), join(temporary, 'gen')]
  const names = [...new Set([...(await filesOf(committed)), ...(await filesOf(generated))])].sort()
  const different: string[] = []
  for (const name of names) {
    const [before, after] = await Promise.all(
      [committed, generated].map((folder) => contentOf(join(folder, name))),
    )
    if (before !== after) different.push(name)
  }
  return different.length === 0 ? undefined : `npm run generate changes ${different.join(', ')}`
}

async function migrationDrift(temporary: string) {
  await cp(join(root, 'drizzle', 'migrations'), temporary, { recursive: true })
  const command = ['drizzle-kit', 'generate', '--dialect=postgresql', '--schema=./drizzle/schema/*.ts']
  // drizzle-kit accepts only a folder relative to the working directory, and ends with 0 when it cannot read the folder.
  command.push(`--out=${relative(root, temporary)}`)
  const { output } = await run({ command, cwd: root, env, limitMs: LIMIT_MS })
  return output.includes('No schema changes') ? undefined : `npm run generate adds a migration:\n${output}`
}

async function drawingDrift() {
  const different = await statechartDrift()
  return different.length === 0
    ? undefined
    : `node .setup/bun.mjs tools/check/statecharts.ts changes docs/statecharts: ${different.join(', ')}`
}

async function structure() {
  const files = await sourceFiles()
  console.log(`  ${sizeOf(files)}`)
  return treeProblems(files).join('\n') || undefined
}

async function lockfileAddresses() {
  const lines = (await readFile(join(root, 'bun.lock'), 'utf8')).split('\n')
  const found = lines.filter((line) => /https?:\/\//.test(line))
  return found.length === 0 ? undefined : found.join('\n')
}

const filesOf = async (folder: string) =>
  (await readdir(folder, { recursive: true, withFileTypes: true }))
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(folder.length + 1))

const contentOf = (path: string) => readFile(path, 'utf8').catch(() => undefined)

async function withTemporaryDirectory<T>(work: (path: string) => Promise<T>) {
  const path = await mkdtemp(join(tmpdir(), 'sluice-check-'))
  try {
    return await work(path)
  } finally {
    await rm(path, { recursive: true, force: true })
  }
}
