import { afterEach, beforeEach, expect, test } from 'bun:test'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Tally } from '../kit/tally.ts'
import { linesOf, runBunTest, testsOf } from './unit.ts'

/** An excerpt of a JUnit report of `bun test` 1.4.5. */
const REPORT = `<testsuites name="bun test" tests="4" failures="2">
  <testsuite name="a.test.ts" file="a.test.ts">
    <testcase name="name of&#10;two &lt;lines&gt;" classname="" time="4" file="a.test.ts" line="3" assertions="0" />
    <testcase name="later" classname="" time="0" file="a.test.ts" line="4" assertions="0">
      <skipped />
    </testcase>
    <testcase name="fails" classname="inner &gt; outer" time="0.1" file="b.test.ts" line="5" assertions="1">
      <failure type="AssertionError" message="1 &amp; 2">AssertionError: 1 &amp; 2&#10;  at a.test.ts:5:71&#10;</failure>
    </testcase>
    <testcase name="waits" classname="" time="0.05" file="b.test.ts" line="3" assertions="0">
      <failure type="TimeoutError" message="test timed out" />
    </testcase>
  </testsuite>
</testsuites>`

test('reads tests, groups and failures from a report', () => {
  const tests = testsOf(REPORT)
  expect(tests.map(({ name, isSkipped, failure }) => [name, isSkipped, failure])).toEqual([
    ['name of\ntwo <lines>', false, undefined],
    ['later', true, undefined],
    ['outer > inner > fails', false, 'AssertionError: 1 & 2\n  at a.test.ts:5:71'],
    ['waits', false, 'TimeoutError: test timed out'],
  ])
  expect(linesOf(tests)).toEqual([
    '  ok     a.test.ts: 1 passed (4 s)',
    '  FAILED b.test.ts: 0 passed, 2 failed',
  ])
})

let folder: string
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-once-'))
})
afterEach(() => rm(folder, { recursive: true }))

async function outcomeOf(files: Record<string, string>) {
  const head = "import { expect, test } from 'bun:test'\n"
  for (const [name, source] of Object.entries(files)) await writeFile(join(folder, name), head + source)
  const tally = new Tally()
  await runBunTest(tally, [], { CI: 'true' }, folder)
  return { passed: tally.passed, failed: tally.failures.map(({ title }) => title) }
}

test('a failed test fails at once, also in CI', async () => {
  const unsteady = `
    import { existsSync, writeFileSync } from 'node:fs'
    const isSecond = existsSync(import.meta.path + '.seen')
    writeFileSync(import.meta.path + '.seen', '')
    test('a', () => expect(isSecond).toBe(true)); test('b', () => {})`
  expect(await outcomeOf({ 'x.test.ts': unsteady, 'y.test.ts': `test('c', () => {})` })).toEqual({
    passed: 2,
    failed: ['x.test.ts: a'],
  })
})

test('a test that exits the process fails, and so does an unloadable file', async () => {
  const source = `test('a', () => process.exit(0)); test('b', () => {})`
  expect((await outcomeOf({ 'x.test.ts': source, 'y.test.ts': `test('c', () => {})` })).failed).toHaveLength(
    1,
  )
  expect((await outcomeOf({ 'z.test.ts': `import './nope.ts'` })).failed).toContain('bun test')
})
