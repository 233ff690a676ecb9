import { expect, test } from 'bun:test'
import { choose, importedBy } from './select.ts'
import { SUITES, type Suite, TURNS } from './suites.ts'

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
const TABLE = [suite('one', /^one\//), suite('two', /^two\//, ['sim/main.ts']), suite('three', /^three\//)]

const reasonsOf = (changed: string[] | null, number: number) =>
  choose(TABLE, { changed, number, source }).map(({ reason }) => reason)

test('a suite runs when a path changes that can affect it', () => {
  expect(reasonsOf(['docs/x.md', 'one/x.ts'], 1)).toEqual(['one/x.ts', null, null])
})

test('a suite runs when a file changes that its entries import through others', () => {
  expect(importedBy(['sim/main.ts'], source)).toEqual(new Set(['sim/main.ts', 'rooms/a.ts', 'rooms/b.ts']))
  expect(reasonsOf(['rooms/b.ts'], 1)).toEqual([null, 'rooms/b.ts', null])
})

test('every suite runs when the installed software or the runner of the suites changes', () => {
  expect(reasonsOf(['bun.lock'], 1)).toEqual(['bun.lock', 'bun.lock', 'bun.lock'])
  expect(reasonsOf(['tools/test/service.ts'], 1)).not.toContain(null)
})

test('every suite runs when the last green run is unknown', () => {
  expect(reasonsOf(null, 1)).not.toContain(null)
})

test('a suite that nothing affects runs once per round of turns', () => {
  const runs = Array.from({ length: TURNS }, (_, number) => choose(SUITES, { changed: [], number, source }))
  for (const [index, { name }] of SUITES.entries())
    expect([name, runs.filter((choices) => choices[index]?.reason !== null).length]).toEqual([name, 1])
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
