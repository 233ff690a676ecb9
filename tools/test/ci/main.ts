/**
 * `npm run ci`: `npm test`, then the suites that a change since their last green run can affect, and a quarter of the others.
 * `-- --full` runs every suite, `-- --only <names>` the named ones without `npm test`, `-- --list` prints the choice. Each green
 * suite of a committed tree is recorded in `.ci/green.json`.
 */
import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { eachLine } from '../../../sidecars/supervisor/lines.ts'
import { type Choice, choose, type Since } from './select.ts'
import { SUITES } from './suites.ts'

const root = join(import.meta.dirname, '..', '..', '..')
const greenFile = join(root, '.ci', 'green.json')
const TOTALS = /^(\d+) passed, (\d+) failed$/
/** The exit code that shells use after Ctrl-C. */
const INTERRUPTED = 130
/** Minutes for all suites of a run on two cores. */
const BUDGET_MINUTES = 45

const { values } = parseArgs({
  options: {
    full: { type: 'boolean', default: false },
    list: { type: 'boolean', default: false },
    only: { type: 'string' },
  },
})

const git = (...args: string[]) =>
  execFileSync('git', args, { cwd: root, encoding: 'utf8', stdio: 'pipe' }).trim()
const head = git('rev-parse', 'HEAD')
/** The commit on which each suite was last green. */
const green: Record<string, string> = JSON.parse(readFileSync(greenFile, 'utf8'))
const isCommitted = () => git('status', '--porcelain') === '' && git('rev-parse', 'HEAD') === head

const only = values.only?.split(',')
const unknown = only?.filter((name) => !SUITES.some((suite) => suite.name === name)) ?? []
if (unknown.length > 0) {
  console.error(`unknown suite '${unknown.join(', ')}': use ${SUITES.map(({ name }) => name).join(', ')}`)
  process.exit(2)
}
const named = (reason: string, names?: readonly string[]) =>
  SUITES.map(
    (suite): Choice => ({
      suite,
      reason: names === undefined || names.includes(suite.name) ? reason : null,
    }),
  )
const choices = values.full
  ? named('full run')
  : only
    ? named('named', only)
    : choose(SUITES, {
        since: changesSince,
        source: (path) => (existsSync(join(root, path)) ? readFileSync(join(root, path), 'utf8') : null),
      })
for (const line of linesOf(choices)) console.log(line)
if (values.list) process.exit()

interface Outcome {
  name: string
  passed: number
  failed: number
  minutes: number
  /** Minutes of the table. */
  expected: number
}

let child: Bun.Subprocess | undefined
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const)
  process.on(signal, async () => {
    // A suite stops its own processes when it gets TERM.
    child?.kill('SIGTERM')
    await child?.exited
    process.exit(INTERRUPTED)
  })

const wasCommitted = isCommitted()
const outcomes = only ? [] : [await outcomeOf('npm test', ['npm', 'test'], 7)]
for (const { suite, reason } of choices) {
  if (reason === null) continue
  outcomes.push(await outcomeOf(suite.name, ['npm', 'run', ...suite.command], suite.minutes))
}
if (!only) {
  // The default port may be taken.
  const port = `PORT=${20_000 + Math.floor(Math.random() * 10_000)}`
  outcomes.push(await outcomeOf('demo', ['env', port, 'npm', 'run', 'demo', '--', '--once'], 0.5, true))
}

console.log('\nsuite          passed  failed  minutes  of about')
for (const { name, passed, failed, minutes, expected } of outcomes)
  console.log(
    `${name.padEnd(14)} ${String(passed).padStart(6)}  ${String(failed).padStart(6)}  ${minutes.toFixed(1).padStart(7)}  ${expected.toFixed(1).padStart(8)}`,
  )
const sum = (of: (outcome: Outcome) => number) => outcomes.reduce((total, outcome) => total + of(outcome), 0)
console.log(`${sum(({ minutes }) => minutes).toFixed(1)} minutes of at most ${BUDGET_MINUTES}`)
const failed = sum((outcome) => outcome.failed)
if (wasCommitted && isCommitted()) record()
console.log(`\n${sum(({ passed }) => passed)} passed, ${failed} failed`)
process.exit(failed === 0 ? 0 : 1)

/** Writes the commit of each suite that was green in this run. The order is that of the table. */
function record() {
  const isGreen = new Set(outcomes.filter((outcome) => outcome.failed === 0).map(({ name }) => name))
  const next = SUITES.flatMap(({ name }) => {
    const commit = isGreen.has(name) ? head : green[name]
    return commit === undefined ? [] : [[name, commit]]
  })
  writeFileSync(greenFile, `${JSON.stringify(Object.fromEntries(next), null, 2)}\n`)
}

function changesSince(suite: string): Since {
  const commit = green[suite]
  if (commit === undefined) return { changed: null, commits: 0 }
  try {
    const paths = git('diff', '--name-only', '--no-renames', commit, head)
    return {
      changed: paths.split('\n').filter((path) => path !== ''),
      commits: Number(git('rev-list', '--count', `${commit}..${head}`)),
    }
  } catch {
    // This clone does not have the commit.
    return { changed: null, commits: 0 }
  }
}

function linesOf(all: readonly Choice[]): string[] {
  const lines = all.map(
    ({ suite: { name, minutes }, reason }) =>
      `${(reason === null ? `  skip ${name}` : `  run  ${name}`).padEnd(20)} ${minutes.toFixed(1).padStart(4)} min  ${reason ?? `green on ${green[name]?.slice(0, 8)}, not affected since`}`,
  )
  const minutes = all.reduce((total, { suite, reason }) => total + (reason === null ? 0 : suite.minutes), 0)
  return ['Suites:', ...lines, `  about ${minutes.toFixed(0)} minutes`]
}

/**
 * Runs one command and shows its output. The totals are those of its last line `N passed, N failed`; an exit code other than 0
 * counts as at least one failure. `isOneTest`: the command itself is one test.
 */
async function outcomeOf(
  name: string,
  command: string[],
  expected: number,
  isOneTest = false,
): Promise<Outcome> {
  const startedMs = performance.now()
  const started = Bun.spawn(command, { cwd: root, stdin: 'ignore', stdout: 'pipe', stderr: 'pipe' })
  child = started
  let totals: RegExpExecArray | null = null
  const show = (line: string) => {
    console.log(line)
    totals = TOTALS.exec(line) ?? totals
  }
  await Promise.all([eachLine(started.stdout, show), eachLine(started.stderr, show), started.exited])
  const code = await started.exited
  child = undefined
  const minutes = (performance.now() - startedMs) / 60_000
  const [, passedText = '0', failedText = '0'] = totals ?? []
  const isBad = code !== 0 || (totals === null && !isOneTest)
  const passedCount = isOneTest && code === 0 ? 1 : Number(passedText)
  const failedCount = Math.max(Number(failedText), isBad ? 1 : 0)
  if (isBad) console.log(`FAILED ${command.join(' ')}`)
  return { name, passed: passedCount, failed: failedCount, minutes, expected }
}
