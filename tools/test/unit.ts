/** Runs `bun test` over all tests beside the code, and reports one line per file. */
import { mkdir, mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { availableParallelism, tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { run } from '../kit/run.ts'
import type { Tally } from '../kit/tally.ts'
import { startTestPostgres } from '../service/test-postgres.ts'

const root = join(import.meta.dirname, '..', '..')
/** About four times the duration on two cores, so only a test that hangs reaches this limit. */
const LIMIT_MS = 1_200_000
/** Limit of one test or hook. It is for tests that hang, not for tests slowed down by a busy machine. */
const TEST_LIMIT_MS = 60_000
/** Slow tests of Python and of sandbox escapes. `test:interop` executes them with all libraries and every kind of sandbox. */
const IN_SANDBOXES = [
  'sidecars/runner/python/hostile.test.ts',
  'sidecars/runner/python/python.test.ts',
  'sidecars/sandbox/trace.test.ts',
]
/**
 * Slow tests that start many processes, or play many random days of a lake. `npm run test:processes` executes them, and CI does
 * so when a file that they import has changed.
 */
export const PROCESSES = [
  'app/versions/kept-states.test.ts',
  'sidecars/query/query.test.ts',
  'sidecars/runner/engine/engine-leases.test.ts',
  'sidecars/runner/session/shared-instance.test.ts',
  'sidecars/runner/preview/preview.test.ts',
  'sidecars/runner/runner.test.ts',
  'sidecars/supervisor/main.test.ts',
  'workers/leadership/leadership.test.ts',
  'workers/reaper/maintenance.test.ts',
  'simulation/simulation.test.ts',
]
/** The exit code of `bun test` when any number of tests have failed. */
const SOME_FAILED = 1
/** `bun test` prints this when a file does not load, or when a promise is rejected after its test. */
const OUTSIDE_TESTS = '# Unhandled error between tests'
/** Characters of output that are printed to explain a problem. */
const SHOWN_CHARACTERS = 10_000
/** Playwright runs the end-to-end tests, but `bun test` would also match their file names. */
const IGNORED = ['**/node_modules/**', 'e2e/**']
const WORKERS = Math.max(2, availableParallelism())
/** The last duration of each file, in milliseconds. Bun uses them to start the slowest files first. */
const TIMINGS = join(root, 'node_modules', '.cache', 'unit-timings.json')

export async function runUnitTests(tally: Tally, patterns: string[] = []) {
  tally.heading('Unit and slice tests (bun test)')
  const isAll = patterns.length === 0
  const files = isAll ? [...(await folders()), ...(await ownTests())] : patterns
  const ignored = isAll ? [...IGNORED, ...IN_SANDBOXES, ...PROCESSES] : IGNORED
  const database = await startTestPostgres()
  try {
    const options = [`--parallel=${WORKERS}`, '--parallel-delay=0']
    options.push(...ignored.map((pattern) => `--path-ignore-patterns=${pattern}`))
    await mkdir(dirname(TIMINGS), { recursive: true })
    options.push(`--timings=${TIMINGS}`, '--update-timings')
    await runBunTest(tally, [...options, ...files], { TEST_DATABASE_URL: database.url })
  } finally {
    await database.stop()
  }
}

/** Runs `bun test` once, also in CI: a test that fails without a fault in the product is a fault itself. */
export async function runBunTest(tally: Tally, args: string[], env: Record<string, string>, folder = root) {
  const { tests, problem } = await runOnce(args, env, folder)
  for (const line of linesOf(tests)) console.log(line)
  tally.pass(tests.filter(hasPassed).length)
  for (const test of tests) if (test.failure !== undefined) tally.fail(titleOf(test), test.failure)
  if (problem !== undefined) tally.fail('bun test', problem)
}

/**
 * Runs one `bun test` process and returns its tests. `problem` is set when the process failed for a reason other than failed
 * tests.
 */
async function runOnce(args: string[], env: Record<string, string>, cwd: string) {
  const reports = await mkdtemp(join(tmpdir(), 'sluice-junit-'))
  const path = join(reports, 'report.xml')
  const { code, isLate, output, seconds } = await run({
    command: [
      process.execPath,
      'test',
      `--timeout=${TEST_LIMIT_MS}`,
      '--reporter=junit',
      `--reporter-outfile=${path}`,
      ...args,
    ],
    cwd,
    env: { ...env, NO_COLOR: '1' },
    limitMs: LIMIT_MS,
  })
  // When a test exits the process, no report is written.
  const report = await readFile(path, 'utf8').catch(() => undefined)
  await rm(reports, { recursive: true })
  console.log(`  ${seconds} s of at most ${LIMIT_MS / 1000} s`)
  const tests = testsOf(report ?? '')
  const expectedCode = tests.some(({ failure }) => failure !== undefined) ? SOME_FAILED : 0
  const outside = output.indexOf(OUTSIDE_TESTS)
  const last = output.slice(-SHOWN_CHARACTERS)
  let problem: string | undefined
  if (isLate) problem = `took longer than ${LIMIT_MS / 1000} s\n${last}`
  else if (outside >= 0) problem = output.slice(outside, outside + SHOWN_CHARACTERS)
  else if (report === undefined || code !== expectedCode) problem = `ended with code ${code}\n${last}`
  return { tests, problem }
}

/** Top-level folders that may contain tests. */
async function folders() {
  const entries = await readdir(root, { withFileTypes: true })
  return entries
    .filter((entry) => entry.isDirectory() && !/^(\.|node_modules$|e2e$)/.test(entry.name))
    .map(({ name }) => `./${name}/`)
}

/** Test files of `.setup`. `bun test` does not search folders whose name begins with a dot. */
async function ownTests() {
  const names = await readdir(join(root, '.setup'))
  return names.filter((name) => name.endsWith('.test.ts')).map((name) => `./.setup/${name}`)
}

/** Only files that take longer show their duration, to keep the report short. */
const WORTH_TELLING_MS = 3_000

/** One line per file: the counts of passed and failed tests, and the duration of a slow file. */
export function linesOf(tests: readonly TestResult[]): string[] {
  return [...Map.groupBy(tests, ({ file }) => file)].map(([file, own]) => {
    const passed = own.filter(hasPassed).length
    const failed = own.filter(({ failure }) => failure !== undefined).length
    const ms = own.reduce((sum, test) => sum + test.ms, 0)
    const took = ms < WORTH_TELLING_MS ? '' : ` (${Math.round(ms / 1000)} s)`
    const sum = `${file}: ${passed} passed`
    return (failed === 0 ? `  ok     ${sum}` : `  FAILED ${sum}, ${failed} failed`) + took
  })
}

interface TestResult {
  file: string
  /** The titles of the groups and the title of the test, joined by ` > `. */
  name: string
  ms: number
  isSkipped: boolean
  /** The message of the failure; absent unless the test failed. */
  failure?: string
}

const titleOf = ({ file, name }: TestResult) => `${file}: ${name}`
const hasPassed = ({ isSkipped, failure }: TestResult) => !isSkipped && failure === undefined

const CASE =
  /<testcase name="([^"]*)" classname="([^"]*)" time="([^"]*)" file="([^"]*)"[^>]*?(?:\/>|>([\s\S]*?)<\/testcase>)/g
const FAILURE = /<failure type="([^"]*)"(?: message="([^"]*)")?(?:>([^<]*)<| \/>)/

/**
 * Parses the tests of a JUnit report as written by Bun: without CDATA, and with `<`, `>` and `"` escaped in every name and
 * message.
 */
export function testsOf(report: string): TestResult[] {
  return [...report.matchAll(CASE)].map(([, name = '', groups = '', seconds, file = '', content = '']) => {
    const failed = FAILURE.exec(content)
    const [, type = '', message = '', text] = failed ?? []
    // Bun names the innermost group first.
    const path = [...unescaped(groups).split(' > ').reverse(), unescaped(name)]
    return {
      file,
      name: path.filter((part) => part !== '').join(' > '),
      ms: Number(seconds) * 1000,
      isSkipped: content.includes('<skipped'),
      ...(failed ? { failure: unescaped(text ?? `${type}: ${message}`).trim() } : {}),
    }
  })
}

const ENTITIES: Record<string, string> = { lt: '<', gt: '>', quot: '"', apos: "'", amp: '&', '#10': '\n' }
const unescaped = (text: string) => text.replace(/&(#?\w+);/g, (entity, name) => ENTITIES[name] ?? entity)
