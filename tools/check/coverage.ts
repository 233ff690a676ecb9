/** `e2e/COVERAGE.md` as `e2e/coverage.ts` and the tests are now. Run by itself it writes it; the checks compare. */
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { JSONReport, JSONReportSuite } from '@playwright/test/reporter'
import { COVERAGE, type Section } from '../../e2e/coverage.ts'
import { run } from '../test/run.ts'

const ROOT = join(import.meta.dirname, '..', '..')
const PAGE = join(ROOT, 'e2e', 'COVERAGE.md')
const LIST_LIMIT_MS = 60_000

/** What is wrong with the table, or undefined: rows without a test, tests that do not exist, a page that is out of date. */
export async function coverageProblems(): Promise<string | undefined> {
  const problems = problemsOf(COVERAGE, await titlesOfTests())
  if ((await readFile(PAGE, 'utf8').catch(() => '')) !== pageOf(COVERAGE))
    problems.push('npm run generate changes e2e/COVERAGE.md')
  return problems.length === 0 ? undefined : problems.join('\n')
}

/** `titles` as Playwright lists them: `file › title`. */
export function problemsOf(sections: readonly Section[], titles: readonly string[]): string[] {
  const problems: string[] = []
  const times = new Map<string, number>()
  for (const title of titles) times.set(title, (times.get(title) ?? 0) + 1)
  const ids = new Set<string>()
  for (const { id, test } of sections.flatMap(({ rows }) => rows)) {
    if (ids.has(id)) problems.push(`${id}: two rows have this id`)
    ids.add(id)
    if (times.get(test) !== 1)
      problems.push(`${id}: there ${times.has(test) ? 'are several tests' : 'is no test'} '${test}'`)
  }
  return problems
}

export function pageOf(sections: readonly Section[]): string {
  const rows = sections.flatMap((section) => section.rows)
  const cell = (text: string) => text.replaceAll('|', '\\|')
  return [
    '# What of the specification is proven, and where',
    '',
    'Generated from [`coverage.ts`](coverage.ts) by `node .setup/bun.mjs tools/check/coverage.ts`. A check fails when a row has no',
    'test, when its test does not exist, and when this page is out of date.',
    '',
    `${rows.length} rows, each with an end-to-end test.`,
    ...sections.flatMap((section) => [
      '',
      `## ${section.title}`,
      '',
      '| Row | What | Test |',
      '|---|---|---|',
      ...section.rows.map(({ id, text, test }) => `| \`${id}\` | ${cell(text)} | ${cell(test)} |`),
    ]),
    '',
  ].join('\n')
}

async function titlesOfTests(): Promise<string[]> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-list-'))
  const path = join(folder, 'list.json')
  try {
    const { output } = await run({
      command: [
        'node',
        'node_modules/@playwright/test/cli.js',
        'test',
        '--list',
        '--config=e2e/playwright.config.ts',
        '--reporter=json',
      ],
      cwd: ROOT,
      env: { PLAYWRIGHT_JSON_OUTPUT_NAME: path, FORCE_COLOR: '0' },
      limitMs: LIST_LIMIT_MS,
    })
    const report: JSONReport | undefined = await readFile(path, 'utf8').then(JSON.parse, () => undefined)
    if (report === undefined || report.errors.length > 0)
      throw new Error(`the tests cannot be listed\n${output}`)
    // A file may be in two projects; it is one test.
    return [...new Set(report.suites.flatMap((suite) => titlesIn(suite, [])))]
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

const titlesIn = (suite: JSONReportSuite, path: string[]): string[] => {
  const here = [...path, suite.title]
  return [
    ...suite.specs.map((spec) => [...here, spec.title].join(' › ')),
    ...(suite.suites ?? []).flatMap((inner) => titlesIn(inner, here)),
  ]
}

if (import.meta.main) {
  await writeFile(PAGE, pageOf(COVERAGE))
  const problems = problemsOf(COVERAGE, await titlesOfTests())
  if (problems.length > 0) console.error(problems.join('\n'))
  process.exit(problems.length === 0 ? 0 : 1)
}
