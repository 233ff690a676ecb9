/** `bun test` over everything that sits beside the code, told one line a file. */
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { run } from './run.ts'
import { type Failure, Tally } from './tally.ts'
import { startTestPostgres } from './test-postgres.ts'

const root = join(import.meta.dirname, '..', '..')
/** Some four times what it takes on two cores: whoever waits longer waits for something that hangs. */
const LIMIT_MS = 1_200_000
/** Of one test or hook: for what hangs, not for what a busy machine makes slow. */
const TEST_LIMIT_MS = 60_000
/** Slow attempts to break out: `.ci/run` makes them in `test:interop`, which has every kind of sandbox. */
const LONGER = ['sidecars/runner/python/hostile.test.ts', 'sidecars/sandbox/trace.test.ts']
/** Files that take longer have their time told: the whole must stay short. */
const WORTH_TELLING_S = 3
/** What `bun test` ends with when tests have failed, however many. */
const SOME_FAILED = 1
/** What fails where no test does: a file that does not load, a rejection that nobody waited for. */
const OUTSIDE_TESTS = 'an error outside its tests'
/** End-to-end tests belong to Playwright, whose file names `bun test` would take for its own. */
const IGNORED = ['**/node_modules/**', 'e2e/**']

/** A process each, beside each other: what runs users' code, and all else. They take about the same time. */
const RUNS_CODE = ['lake', 'sidecars']

export async function runUnitTests(tally: Tally, patterns: string[] = []) {
  tally.heading('Unit and slice tests (bun test)')
  if (patterns.length > 0) return await withPostgres(tally, IGNORED, patterns)
  const files = [...(await folders()), ...(await ownTests())]
  const runsCode = (path: string) => RUNS_CODE.some((folder) => path === `./${folder}/`)
  const shares = [files.filter(runsCode), files.filter((path) => !runsCode(path))]
  await Promise.all(shares.map((share) => withPostgres(tally, [...IGNORED, ...LONGER], share)))
}

/** Runs them with a server of their own. */
async function withPostgres(tally: Tally, ignored: readonly string[], files: readonly string[]) {
  const database = await startTestPostgres()
  try {
    const options = ignored.map((pattern) => `--path-ignore-patterns=${pattern}`)
    await runBunTest(tally, [...options, ...files], { TEST_DATABASE_URL: database.url })
  } finally {
    await database.stop()
  }
}

/** In CI, files with failures are tried a second time: where all of them pass then, each failure is told and counts as passed. */
export async function runBunTest(tally: Tally, args: string[], env: Record<string, string>, folder = root) {
  const first = new Tally()
  const { failed, isExplained } = await runOnce(first, args, env, folder)
  tally.pass(first.passed)
  const isUnsteady =
    Boolean(process.env.CI) &&
    isExplained &&
    failed.length > 0 &&
    (await pass(first.failures, failed, env, folder))
  for (const failure of first.failures)
    if (isUnsteady) tally.passSecondTime(failure)
    else tally.fail(failure.title, failure.detail)
}

/** Whether nothing fails in these files any more, and every test that had failed has passed. */
async function pass(
  failures: readonly Failure[],
  files: readonly string[],
  env: Record<string, string>,
  folder: string,
) {
  console.log(`  again: ${files.join(' ')}`)
  const again = new Tally()
  const { passed } = await runOnce(
    again,
    files.map((file) => `./${file}`),
    env,
    folder,
  )
  const titles = new Set(passed)
  return (
    again.failures.length === 0 &&
    failures.every(({ title }) => title.endsWith(OUTSIDE_TESTS) || titles.has(title))
  )
}

async function runOnce(tally: Tally, args: string[], env: Record<string, string>, cwd: string) {
  const reader = readBunTest(tally)
  const { code, isLate, seconds } = await run({
    command: [process.execPath, 'test', `--timeout=${TEST_LIMIT_MS}`, ...args],
    cwd,
    env: { ...env, NO_COLOR: '1' },
    limitMs: LIMIT_MS,
    onLine: reader.line,
  })
  const { isWhole, failed, passed, rest } = reader.end()
  console.log(`  ${seconds} s of at most ${LIMIT_MS / 1000} s`)
  /** Every test had its turn, and what failed says why the process ended as it did. */
  const isExplained =
    !isLate && isWhole && !failed.includes('') && code === (failed.length > 0 ? SOME_FAILED : 0)
  if (isLate) tally.fail('bun test', `took longer than ${LIMIT_MS / 1000} s`)
  else if (!isExplained) tally.fail('bun test', `ended with code ${code}\n${rest}`)
  return { isExplained, failed, passed }
}

/** Those that may have tests. */
async function folders() {
  const entries = await readdir(root, { withFileTypes: true })
  return entries
    .filter((entry) => entry.isDirectory() && !/^(\.|node_modules$|e2e$)/.test(entry.name))
    .map(({ name }) => `./${name}/`)
}

/** `bun test` does not look into folders whose name begins with a dot. */
async function ownTests() {
  const names = await readdir(join(root, '.setup'))
  return names.filter((name) => name.endsWith('.test.ts')).map((name) => `./.setup/${name}`)
}

/**
 * Reads what `bun test` prints: an explanation, then its `(fail)` line; or a block between two rules, when a file does not
 * even load.
 */
export function readBunTest(tally: Tally, print: (line: string) => void = console.log) {
  let file = ''
  let began = performance.now()
  const titles: string[] = []
  let passed = 0
  let failures: Failure[] = []
  let above: string[] = []
  let isLoading = false
  let isRepeating = false
  const failed: string[] = []
  let isWhole = false

  const endFile = () => {
    if (file !== '') {
      const sum = `${file}: ${passed} passed`
      const seconds = Math.round((performance.now() - began) / 1000)
      const took = seconds < WORTH_TELLING_S ? '' : ` (${seconds} s)`
      print((failures.length === 0 ? `  ok     ${sum}` : `  FAILED ${sum}, ${failures.length} failed`) + took)
    }
    tally.pass(passed)
    for (const failure of failures) tally.fail(failure.title, failure.detail)
    if (failures.length > 0) failed.push(file)
    passed = 0
    failures = []
    above = []
  }
  const fail = (name: string) => {
    failures.push({ title: `${file}: ${name}`, detail: above.join('\n') })
    above = []
  }
  const line = (text: string) => {
    const header = /^(\S.*\.(?:test|interop)\.ts):$/.exec(text)
    const result = /^\((pass|fail|skip|todo)\) (.*?)(?: \[[\d.]+ ?m?s\])?$/.exec(text)
    const last = failures.at(-1)
    // A test that ends the process ends all that come after it, and with any code.
    isWhole ||= /^Ran \d+ tests? across \d+ files?\./.test(text)
    // At the end Bun lists all failures once more.
    isRepeating ||= /^\d+ tests? failed:$/.test(text)
    if (isRepeating) return
    if (header) {
      endFile()
      file = header[1] ?? ''
      began = performance.now()
    } else if (text === '# Unhandled error between tests') {
      isLoading = true
    } else if (isLoading && /^-{10,}$/.test(text) && above.length > 0) {
      isLoading = false
      fail(OUTSIDE_TESTS)
    } else if (isLoading && /^-{10,}$/.test(text)) {
      above = []
    } else if (result?.[1] === 'fail') {
      fail(result[2] ?? '')
    } else if (result) {
      if (result[1] === 'pass') {
        passed++
        titles.push(`${file}: ${result[2]}`)
      }
      above = []
    } else if (last && above.length === 0 && /^ {2}\^ /.test(text)) {
      last.detail += `\n${text.trim()}`
    } else if (text !== '') above.push(text)
  }
  return {
    line,
    /** Says what the last file did, whether all files had their turn, which of them failed, and which tests passed. */
    end: () => {
      const rest = above.join('\n')
      endFile()
      return { isWhole, failed, passed: titles, rest }
    },
  }
}
