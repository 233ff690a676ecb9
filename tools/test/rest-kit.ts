/**
 * Apache's compatibility kit for Iceberg REST catalogs runs against a real service. Each of its tests has its own branch. Each
 * difference from rest-kit-limits.ts fails this suite: a failure that is not listed there, and a listed test that passes.
 */
import { mkdtemp, readdir, readFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { installed } from '../install/apt.ts'
import { insisting } from '../install/installing.ts'
import { type RunOptions, run } from '../kit/run.ts'
import type { Tally } from '../kit/tally.ts'
import { startService } from '../service/service.ts'
import { REST_KIT_LIMITS } from './rest-kit-limits.ts'

const KIT = join(import.meta.dirname, 'engines', 'rest-kit')
/** The download is about 110 MB. */
const INSTALL_LIMIT_MS = 5 * 60_000
const KIT_LIMIT_MS = 5 * 60_000

export async function judgeByRestKit(tally: Tally): Promise<void> {
  tally.heading("Apache's REST compatibility kit")
  const target = await mkdtemp(join(tmpdir(), 'sluice-rest-kit-'))
  let service: Awaited<ReturnType<typeof startService>> | undefined
  await tally.check('the kit is downloaded and compiled', () => compile(target))
  await tally.check('the service starts', async () => {
    service = await startService()
    return undefined
  })
  if (service === undefined) return
  const { url, stop } = service
  await tally.check('the kit runs to its end', async () => {
    const { output, code } = await maven(target, { limitMs: KIT_LIMIT_MS, goal: 'surefire:test', url })
    return code === 0 ? undefined : output
  })
  await tally.check('the service stops', stop)
  await count(tally, join(target, 'surefire-reports'))
}

async function compile(target: string): Promise<undefined> {
  Bun.which('mvn') ?? (await installed('maven', () => Bun.which('mvn')))
  Bun.which('javac') ?? (await installed('default-jdk-headless', () => Bun.which('javac')))
  await insisting('mvn test-compile', async () => {
    const { code, output } = await maven(target, { limitMs: INSTALL_LIMIT_MS, goal: 'test-compile' })
    if (code !== 0) throw new Error(output)
  })
}

const maven = (
  target: string,
  { limitMs, goal, url }: Pick<RunOptions, 'limitMs'> & { goal: string; url?: string },
) =>
  run({
    command: [
      ...['mvn', '--quiet', '--batch-mode', goal, `-Dkit.target=${target}`],
      ...(url === undefined ? [] : [`-Dsluice.url=${url}`, `-Duri=${url}/iceberg`]),
    ],
    cwd: KIT,
    limitMs,
  })

/** Counts each test of the kit that is not skipped by the kit itself. */
async function count(tally: Tally, reports: string): Promise<void> {
  const seen = new Set<string>()
  for (const file of (await readdir(reports)).filter((name) => name.endsWith('.xml')))
    for (const { name, skipped, failure } of testsIn(await readFile(join(reports, file), 'utf8'))) {
      if (skipped) continue
      seen.add(name)
      const limit = REST_KIT_LIMITS.find((each) => each.tests.includes(name))
      if (limit === undefined && failure !== null) tally.fail(`kit: ${name}`, failure)
      else if (limit !== undefined && failure === null)
        tally.fail(`kit: ${name}`, 'passes, but is listed in rest-kit-limits.ts: remove it there')
      else tally.pass()
    }
  for (const name of REST_KIT_LIMITS.flatMap(({ tests }) => tests))
    if (!seen.has(name)) tally.fail(`kit: ${name}`, 'is listed in rest-kit-limits.ts, but did not run')
}

interface KitTest {
  name: string
  skipped: boolean
  /** Null: the test passed. */
  failure: string | null
}

/** The tests in a report of Surefire. */
function testsIn(report: string): KitTest[] {
  return report
    .split('<testcase ')
    .slice(1)
    .map((text) => ({
      name: /name="([^"]*)"/.exec(text)?.[1] ?? '',
      skipped: text.includes('<skipped'),
      failure:
        /<(?:failure|error)[^>]*>(?:<!\[CDATA\[)?([\s\S]*?)(?:\]\]>)?<\/(?:failure|error)>/.exec(text)?.[1] ??
        null,
    }))
}
