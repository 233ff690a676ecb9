import { mkdir, mkdtemp, readdir } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { insisting } from '../../install/installing.ts'
import { run } from '../../kit/run.ts'
import { ROOT } from './fleet.ts'

const MIGRATIONS = 'drizzle/migrations'
const GIT_LIMIT_MS = 60_000
const SET_UP_LIMIT_MS = 5 * 60_000

const migrationsOf = async (root: string) =>
  (await readdir(join(root, MIGRATIONS))).filter((name) => name.endsWith('.sql')).sort()

/**
 * Extracts and sets up the version before the newest migration. The first migration makes the whole schema, so beside it alone
 * this is the first version with the schema. Throws when the history lacks the version, because a test without it would prove
 * nothing.
 */
export async function previousVersion(): Promise<{ root: string; commit: string }> {
  const migrations = await migrationsOf(ROOT)
  const newest = migrations.at(-1) ?? ''
  // A merge may have added the file, for example under a new number.
  const onMain = ['log', '--first-parent', '-m', '--diff-filter=A', '--format=%H']
  const [added = ''] = await git(...onMain, '--', `${MIGRATIONS}/${newest}`)
  const isFirst = migrations.length === 1
  const revision = isFirst ? added : `${added}^`
  const [commit = ''] = added === '' ? [] : await git('rev-parse', '--verify', '--quiet', revision)
  if (commit === '')
    throw new Error(
      `the history lacks the version to upgrade from, at ${newest}: clone without --depth, or run git fetch --unshallow`,
    )
  const root = await mkdtemp(join(tmpdir(), 'previous-'))
  await mkdir(root, { recursive: true })
  await must(
    ['bash', '-o', 'pipefail', '-c', `git archive ${commit} | tar -x -C '${root}'`],
    ROOT,
    GIT_LIMIT_MS,
  )
  const earlier = await migrationsOf(root)
  if (earlier.includes(newest) !== isFirst)
    throw new Error(`${commit} has the migrations ${earlier.join(', ')}`)
  await insisting('setting up the previous version', () =>
    must(['node', '.setup/setup.mjs'], root, SET_UP_LIMIT_MS),
  )
  return { root, commit }
}

/** The lines of git's answer; none when git fails. */
async function git(...args: string[]): Promise<string[]> {
  const { code, output } = await run({ command: ['git', ...args], cwd: ROOT, limitMs: GIT_LIMIT_MS })
  return code === 0 ? output.split('\n').filter((line) => line !== '') : []
}

async function must(command: string[], cwd: string, limitMs: number): Promise<void> {
  const { code, output } = await run({ command, cwd, limitMs })
  if (code !== 0) throw new Error(`${command.join(' ')} ended with code ${code}\n${output}`)
}
