/** Checks that each row of `e2e/COVERAGE.md` has a test with its id as a Playwright tag. Each tag must also name a row. */
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { JSONReport, JSONReportSuite } from '@playwright/test/reporter'
import { run } from '../kit/run.ts'

const ROOT = join(import.meta.dirname, '..', '..')
const LIST_LIMIT_MS = 300_000

/** Returns the contradictions between `e2e/COVERAGE.md` and the tags of the tests, one per line. Undefined: there are none. */
export async function coverageProblems(): Promise<string | undefined> {
  const page = await readFile(join(ROOT, 'e2e', 'COVERAGE.md'), 'utf8')
  return problemsOf(page, await tagsOfTests()).join('\n') || undefined
}

/** `page` is Markdown with one table row per id. `tags` have no `@`. */
export function problemsOf(page: string, tags: ReadonlySet<string>): string[] {
  const ids = [...page.matchAll(/^\| `([^`]+)` \|/gm)].map(([, id]) => id ?? '')
  const rows = new Set(ids)
  return [
    ...ids.filter((id, at) => ids.indexOf(id) !== at).map((id) => `${id}: two rows have this id`),
    ...[...rows].filter((id) => !tags.has(id)).map((id) => `${id}: no test has the tag @${id}`),
    ...[...tags].filter((tag) => !rows.has(tag)).map((tag) => `@${tag}: e2e/COVERAGE.md has no such row`),
  ]
}

async function tagsOfTests(): Promise<Set<string>> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-list-'))
  const path = join(folder, 'list.json')
  const playwright = ['node', 'node_modules/@playwright/test/cli.js', 'test']
  try {
    const { output } = await run({
      command: [...playwright, '--list', '--config=e2e/playwright.config.ts', '--reporter=json'],
      cwd: ROOT,
      env: { PLAYWRIGHT_JSON_OUTPUT_NAME: path, FORCE_COLOR: '0' },
      limitMs: LIST_LIMIT_MS,
    })
    const report: JSONReport | undefined = await readFile(path, 'utf8').then(JSON.parse, () => undefined)
    if (report === undefined || report.errors.length > 0)
      throw new Error(`Playwright cannot list the tests\n${output}`)
    return new Set(report.suites.flatMap(tagsIn))
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

const tagsIn = ({ specs, suites = [] }: JSONReportSuite): string[] => [
  ...specs.flatMap(({ tags }) => tags),
  ...suites.flatMap(tagsIn),
]

if (import.meta.main) {
  const problems = await coverageProblems()
  if (problems !== undefined) console.error(problems)
  process.exit(problems === undefined ? 0 : 1)
}
