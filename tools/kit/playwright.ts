/** Runs one Playwright project of the end-to-end tests, and takes counts and failures from Playwright's JSON report. */
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { JSONReport, JSONReportSpec, JSONReportSuite } from '@playwright/test/reporter'
import { run } from './run.ts'
import type { Tally } from './tally.ts'

const root = join(import.meta.dirname, '..', '..')

const REPORTING_MS = 15_000

export type ProjectOptions = {
  project: 'api' | 'browser' | 'clock' | 'console' | 'faults' | 'fuzz' | 'security'
  /** Runs only the files whose names end with one of these texts. */
  files?: string[]
  /** Runs only the tests with this Playwright tag, for example `@runtime`. */
  tag?: string
  limitMs: number
  env?: Record<string, string>
}

export async function runPlaywright(
  tally: Tally,
  { project, files = [], tag, limitMs, env }: ProjectOptions,
) {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-report-'))
  const reportPath = join(folder, 'report.json')
  try {
    const { code, output, isLate, seconds } = await run({
      command: [
        'node',
        'node_modules/@playwright/test/cli.js',
        'test',
        ...files,
        '--config=e2e/playwright.config.ts',
        `--project=${project}`,
        ...(tag === undefined ? [] : [`--grep=${tag}(?![\\w.-])`]),
        '--reporter=list,json',
        // At its own limit, Playwright still reports which tests have no result. `limitMs` ends a Playwright that hangs.
        `--global-timeout=${limitMs - REPORTING_MS}`,
      ],
      cwd: root,
      env: { ...env, PLAYWRIGHT_JSON_OUTPUT_NAME: reportPath, FORCE_COLOR: '0' },
      limitMs,
      onLine: (line) => /^ +[✓✘-] /.test(line) && console.log(line),
    })
    console.log(`  ${seconds} s of at most ${limitMs / 1000} s`)
    const report: JSONReport | undefined = await readFile(reportPath, 'utf8').then(
      JSON.parse,
      () => undefined,
    )
    const failuresBefore = tally.failures.length
    const withoutResult: string[] = []
    for (const suite of report?.suites ?? []) count(tally, suite, withoutResult)
    if (report && report.errors.length > 0) {
      const errors = report.errors.map((error) => Bun.stripANSI(error.message ?? ''))
      tally.fail(
        `${project} tests`,
        [...errors, ...withoutResult.map((name) => `no result: ${name}`)].join('\n'),
      )
    }
    if (isLate) tally.fail(`${project} tests`, `took longer than ${limitMs / 1000} s\n${output}`)
    else if (code !== 0 && tally.failures.length === failuresBefore) tally.fail(`${project} tests`, output)
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

function count(tally: Tally, suite: JSONReportSuite, withoutResult: string[], path: string[] = []) {
  const here = [...path, suite.title]
  for (const spec of suite.specs) countSpec(tally, spec, withoutResult, here)
  for (const inner of suite.suites ?? []) count(tally, inner, withoutResult, here)
}

function countSpec(tally: Tally, spec: JSONReportSpec, withoutResult: string[], path: string[]) {
  const name = [...path, spec.title].join(' > ')
  for (const test of spec.tests) {
    if (test.status === 'expected') tally.pass()
    if (test.status === 'skipped' && test.annotations.length === 0) withoutResult.push(name)
    if (test.status === 'unexpected' || test.status === 'flaky') {
      const errors = test.results.flatMap((result) => result.errors)
      const messages = errors.map((error) => Bun.stripANSI(error.message ?? ''))
      tally.fail(name, `${spec.file}:${spec.line}\n${messages.join('\n')}`)
    }
  }
}
