import { expect, test } from 'bun:test'
import { choose, importedBy, TURNS } from './select.ts'
import { SUITES, type Suite } from './suites.ts'

const SOURCES: Record<string, string> = {
  'sim/main.ts': `import { a } from '../rooms/a.ts'\nimport fc from 'fast-check'`,
  'rooms/a.ts': `export * from './b.ts'`,
  'rooms/b.ts': `import { a } from './a.ts'`,
}
const source = (path: string) => SOURCES[path] ?? null

const suite = (name: string, paths: RegExp, entries: string[] = []): Suite => ({
  name,
  command: [name],
  finds: 'faults',
  minutes: 1,
  paths,
  entries,
})
const TABLE = [
  suite('one', /^one\//),
  suite('two', /^two\//, ['sim/main.ts']),
  suite('three', /^three\//),
  suite('four', /^four\//),
]

const reasonsOf = (changed: string[] | null) =>
  choose(TABLE, { since: (name) => ({ changed, commits: name === 'four' ? 9 : 1 }), source }).map(
    ({ reason }) => reason,
  )

test('a suite runs when a path changes that can affect it', () => {
  expect(reasonsOf(['docs/x.md', 'one/x.ts'])).toEqual(['one/x.ts', null, null, 'its turn'])
})

test('a suite runs when a file changes that its entries import through others', () => {
  expect(importedBy(['sim/main.ts'], source)).toEqual(new Set(['sim/main.ts', 'rooms/a.ts', 'rooms/b.ts']))
  expect(reasonsOf(['rooms/b.ts'])).toEqual([null, 'rooms/b.ts', null, 'its turn'])
})

test('a unit test affects only the suites that run unit tests', () => {
  expect(reasonsOf(['one/x.test.ts'])).toEqual([null, null, null, 'its turn'])
  const [one] = choose([{ ...suite('one', /^one\//), runsUnitTests: true }], {
    since: () => ({ changed: ['one/x.test.ts'], commits: 0 }),
    source,
  })
  expect(one?.reason).not.toBeNull()
})

test('every suite runs when the installed software or the runner of the suites changes', () => {
  expect(reasonsOf(['bun.lock'])).toEqual(TABLE.map(() => 'bun.lock'))
  expect(reasonsOf(['tools/service/service.ts'])).not.toContain(null)
})

test('every suite runs when its last green run is unknown', () => {
  expect(reasonsOf(null)).not.toContain(null)
})

test('each suite runs within four runs that affect none, the longest unproven first', () => {
  const lastRun = new Map(SUITES.map(({ name }) => [name, 0]))
  for (let run = 1; run <= TURNS; run++) {
    const choices = choose(SUITES, {
      since: (name) => ({ changed: [], commits: run - (lastRun.get(name) ?? 0) }),
      source,
    })
    for (const { suite, reason } of choices) if (reason !== null) lastRun.set(suite.name, run)
  }
  expect([...lastRun].filter(([, run]) => run === 0)).toEqual([])
})

test('each production folder affects a suite, and each suite has its own name', () => {
  for (const folder of [
    'app/runs',
    'workers',
    'machines',
    'drizzle',
    'lake/iceberg',
    'sidecars',
    'console',
    'proto',
  ])
    expect([
      folder,
      SUITES.some(({ paths }) => paths.test(`${folder}/x.ts`) || paths.test(`${folder}/x.tsx`)),
    ]).toEqual([folder, true])
  expect(new Set(SUITES.map(({ name }) => name)).size).toBe(SUITES.length)
})
