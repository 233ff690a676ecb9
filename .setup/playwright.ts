/** One project of the end-to-end tests, counted and explained from Playwright's own report. */
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { JSONReport, JSONReportSpec, JSONReportSuite } from '@playwright/test/reporter'
import { run } from './run.ts'
import type { Tally } from './tally.ts'

const root = join(import.meta.dirname, '..')

export type ProjectOptions = {
  project: 'api' | 'browser' | 'faults'
  limitMs: number
  env?: Record<string, string>
}

export async function runPlaywright(tally: Tally, { project, limitMs, env }: ProjectOptions) {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-report-'))
  const reportPath = join(folder, 'report.json')
  try {
    const { code, output, isLate, seconds } = await run({
      command: [
        'node',
        'node_modules/@playwright/test/cli.js',
        'test',
        '--config=e2e/playwright.config.ts',
        `--project=${project}`,
        '--reporter=list,json',
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
    for (const suite of report?.suites ?? []) count(tally, suite)
    for (const error of report?.errors ?? []) tally.fail(`${project} tests`, error.message ?? output)
    if (isLate) tally.fail(`${project} tests`, `took longer than ${limitMs / 1000} s`)
    else if (code !== 0 && tally.failures.length === failuresBefore) tally.fail(`${project} tests`, output)
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

function count(tally: Tally, suite: JSONReportSuite, path: string[] = []) {
  const here = [...path, suite.title]
  for (const spec of suite.specs) countSpec(tally, spec, here)
  for (const inner of suite.suites ?? []) count(tally, inner, here)
}

function countSpec(tally: Tally, spec: JSONReportSpec, path: string[]) {
  for (const test of spec.tests) {
    if (test.status === 'expected') tally.pass()
    if (test.status === 'unexpected' || test.status === 'flaky') {
      const errors = test.results.flatMap((result) =>
        result.errors.map((error) => Bun.stripANSI(error.message ?? '')),
      )
      tally.fail([...path, spec.title].join(' > '), `${spec.file}:${spec.line}\n${errors.join('\n')}`)
    }
  }
}
