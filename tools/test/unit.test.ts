import { afterEach, beforeEach, expect, test } from 'bun:test'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Tally } from './tally.ts'
import { readBunTest, runBunTest } from './unit.ts'

/** What `bun test` 1.4.5 printed for four small files. */
const OUTPUT = `bun test v1.4.5 (a7733435c)

a.test.ts:
(pass) adds [0.05ms]
(pass) name of
two lines
(skip) later

b.test.ts:
1 | expect(1).toBe(2)
error: expect(received).toBe(expected)

(fail) compares [1.34ms]
(pass) still runs [0.02ms]
(fail) waits [50.15ms]
  ^ this test timed out after 50ms.

c.test.ts:

# Unhandled error between tests
-------------------------------
error: Cannot find module './nope.ts' from 'c.test.ts'
-------------------------------


2 tests failed:
(fail) compares [1.34ms]
(fail) waits [50.15ms]

 3 pass
 1 skip
 2 fail
 1 error
Ran 6 tests across 3 files. [56.00ms]`

function read(output: string) {
  const tally = new Tally()
  const printed: string[] = []
  const reader = readBunTest(tally, (line) => printed.push(line))
  for (const line of output.split('\n')) reader.line(line)
  return { tally, printed, ...reader.end() }
}

test('every test is counted once, and each file told in one line', () => {
  const { tally, printed, failed } = read(OUTPUT)
  expect(tally.passed).toBe(3)
  expect(tally.failures).toHaveLength(3)
  expect(failed).toEqual(['b.test.ts', 'c.test.ts'])
  expect(printed).toEqual([
    '  ok     a.test.ts: 2 passed',
    '  FAILED b.test.ts: 1 passed, 2 failed',
    '  FAILED c.test.ts: 0 passed, 1 failed',
  ])
})

test('a failure carries what was said about it', () => {
  const [compares, waits, loads] = read(OUTPUT).tally.failures
  expect(compares).toEqual({
    title: 'b.test.ts: compares',
    detail: '1 | expect(1).toBe(2)\nerror: expect(received).toBe(expected)',
  })
  expect(waits?.detail).toContain('this test timed out after 50ms.')
  expect(loads).toEqual({
    title: 'c.test.ts: an error outside its tests',
    detail: `error: Cannot find module './nope.ts' from 'c.test.ts'`,
  })
})

test('tests that were ended by one of them are not all tests', () => {
  expect(read(OUTPUT).isWhole).toBe(true)
  const cut = OUTPUT.slice(0, OUTPUT.indexOf('(fail) waits'))
  expect(read(cut)).toMatchObject({ isWhole: false, failed: ['b.test.ts'] })
})

test('an end without a word about tests leaves its last words', () => {
  expect(read('bun test v1.4.5\nerror: no such flag')).toMatchObject({
    failed: [],
    rest: expect.stringContaining('no such flag'),
  })
})

let folder: string
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-again-'))
})
afterEach(() => rm(folder, { recursive: true }))

/** What CI makes of files of tests, which know by `isAgain` that they are tried the second time. */
async function inCi(files: Record<string, string>) {
  const head = `
    import { beforeAll, expect, test } from 'bun:test'
    import { existsSync, writeFileSync } from 'node:fs'
    const isAgain = existsSync(import.meta.path + '.seen')
    writeFileSync(import.meta.path + '.seen', '')\n`
  for (const [name, source] of Object.entries(files)) await writeFile(join(folder, name), head + source)
  const tally = new Tally()
  const before = process.env.CI
  process.env.CI = 'true'
  try {
    await runBunTest(tally, ['../../tools/test/'], {}, folder)
  } finally {
    if (before === undefined) delete process.env.CI
    else process.env.CI = before
  }
  return { passed: tally.passed, failed: tally.failures.map(({ title }) => title) }
}

test('what passes the second time passes in CI', async () => {
  const unsteady = `test('a', () => expect(isAgain).toBe(true)); test('b', () => {})`
  expect(await inCi({ 'x.test.ts': unsteady, 'y.test.ts': `test('c', () => {})` })).toEqual({
    passed: 3,
    failed: [],
  })
})

test.each([
  ['fails again', `test('a', () => expect(1).toBe(2))`],
  [
    'has no second time, since what comes before it fails then',
    `beforeAll(() => { if (isAgain) throw new Error('no') }); test('a', () => expect(1).toBe(2))`,
  ],
  [
    'has no second time, since its file does not load then',
    `if (isAgain) throw new Error('no'); test('a', () => expect(1).toBe(2))`,
  ],
  [
    'is not there the second time',
    `if (!isAgain) test('a', () => expect(1).toBe(2)); else test('b', () => {})`,
  ],
  [
    'passes where another one fails then',
    `test('a', () => expect(isAgain).toBe(true)); test('b', () => expect(isAgain).toBe(false))`,
  ],
  [
    'passes in a process that ends badly then',
    `test('a', () => { expect(isAgain).toBe(true); process.exitCode = 7 })`,
  ],
])('a test that %s has failed', async (_, source) => {
  expect((await inCi({ 'x.test.ts': source })).failed).toContain('x.test.ts: a')
})
