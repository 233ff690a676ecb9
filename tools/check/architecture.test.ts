import { expect, test } from 'bun:test'
import {
  ARROWS,
  circlesOf,
  folderCirclesOf,
  heavyImportsOfWorkers,
  importsOf,
  violationsOf,
} from './architecture.ts'
import { sourceFiles } from './folders.ts'

const files = (await sourceFiles()).filter(({ path }) => /\.tsx?$/.test(path))

test('every import goes from a higher layer to a lower one', () => {
  expect(files.length).toBeGreaterThan(20)
  expect(files.flatMap(violationsOf)).toEqual([])
})

test('worker threads load no heavy package', () => {
  expect(heavyImportsOfWorkers(files)).toEqual([])
})

test('no two files import each other, directly or indirectly', () => {
  expect(circlesOf(files)).toEqual([])
})

test('the picture of imports in docs/architecture.md shows the rules of the check', async () => {
  const document = await Bun.file('docs/architecture.md').text()
  const picture = document.slice(document.indexOf('## Imports'))
  const arrows = (pattern: RegExp) =>
    Array.from(picture.slice(0, picture.indexOf('\n```\n')).matchAll(pattern), ([, from, to]) => ({
      from,
      to,
    }))
  const [solid, dotted] = [arrows(/^ {2}(\w+) --> (\w+)$/gm), arrows(/^ {2}(\w+) -\. types \.-> (\w+)$/gm)]
  const reachedBy = (layer: string | undefined): (string | undefined)[] =>
    solid.filter(({ from }) => from === layer).flatMap(({ to }) => [to, ...reachedBy(to)])
  const drawn = (layer: string) =>
    new Set([...reachedBy(layer), ...dotted.filter(({ from }) => from === layer).map(({ to }) => to)])
  for (const [layer, { mayImport }] of Object.entries(ARROWS))
    expect([layer, ...[...drawn(layer)].sort()]).toEqual([layer, ...[...mayImport].sort()])
})

test('no two folders import each other, directly or indirectly', () => {
  expect(folderCirclesOf(files)).toEqual([])
  const knot = [
    { path: 'app/a/service.ts', source: `import '../b/service.ts'` },
    { path: 'app/b/service.ts', source: `import type { A } from '../a/schema.ts'` },
  ]
  expect(folderCirclesOf(knot)).toHaveLength(1)
})

test('tests that read Postgres activity filter by their own database', () => {
  const looks = files
    .filter(({ path }) => /\.(test|spec)\.ts$/.test(path) && path !== 'tools/check/architecture.test.ts')
    .flatMap(({ path, source }) => source.split('`').map((text) => ({ path, text })))
    .filter(({ text }) => /\bpg_(stat_activity|locks)\b/.test(text))
  expect(looks.length).toBeGreaterThan(5)
  expect(looks.filter(({ text }) => !text.includes('current_database()'))).toEqual([])
})

test.each([
  ['machines/run.ts', `import { db } from '../../drizzle/client.ts'`, 'pass facts in with the event'],
  ['machines/run.ts', `import { readFile } from 'node:fs'`, 'xstate and croner only'],
  [
    'lake/writer.ts',
    `import type { Store } from '../app/objects/port.ts'`,
    'pass what it needs as an argument',
  ],
  [
    'drizzle/outbox.ts',
    `const { x } = await import('../../app/runs/service.ts')`,
    'take values as arguments',
  ],
  ['app/runs/service.ts', `export { runRoutes } from './routes.ts'`, 'stand above services'],
  ['app/runs/service.ts', `import { drafts } from '../pipelines/store.ts'`, 'call app/pipelines/service.ts'],
  [
    'workers/threads/loop.ts',
    `import { makeServer } from '../../app/composition/server.ts'`,
    'stand above services',
  ],
  ['sidecars/runner/engine.ts', `import { limits } from '../../app/limits.ts'`, 'over RPC'],
  ['e2e/runs/runs.spec.ts', `import { runs } from '../../drizzle/schema/run.ts'`, 'speak HTTP'],
  ['console/api/client.ts', `import { runRoutes } from '../../app/runs/routes.ts'`, 'import types only'],
  ['console/design/format.ts', `const now = new Date()`, 'take a Clock'],
  ['app/composition/server.ts', `import '../entry/main.ts'`, 'start it by path'],
  ['app/runs/service.ts', `const file = Bun.file('x')`, 'node: modules'],
  ['lake/cache.ts', `import { Database } from 'bun:sqlite'`, 'node: modules'],
  ['app/runs/service.ts', `const now = Date.now()`, 'take a Clock'],
  ['workers/threads/loop.ts', `const now = new Date()`, 'take a Clock'],
  ['app/runs/service.ts', `const id = Math.random()`, 'take newId'],
  ['drizzle/client.ts', `const url = process.env.DATABASE_URL`, 'app/config/config.ts'],
])('reports in %s: %s', (path, source, advice) => {
  const violations = violationsOf({ path, source: `${source}\nexport {}` })
  expect(violations).toHaveLength(1)
  expect(violations[0]).toContain(advice)
})

test.each([
  ['app/runs/service.ts', `import { runs } from './store.ts'`],
  ['app/runs/routes.ts', `import { Elysia } from 'elysia'`],
  [
    'app/entry/main.ts',
    `import { makeServer } from '../composition/server.ts'; Bun.serve({ port: Number(process.env.PORT) })`,
  ],
  ['app/core/clock.ts', `export const now = () => new Date()`],
  ['lake/type.ts', `/* neither Bun.file nor Date.now() */ export const day = (ms: number) => new Date(ms)`],
  ['machines/cron.ts', `import { Cron } from 'croner'`],
  ['app/workers.ts', `new Worker(new URL('../../workers/dispatcher.worker.ts', import.meta.url))`],
  [
    'app/runs/service.test.ts',
    `import { testDatabase } from '../service/database.ts'; Bun.sleep(Date.now())`,
  ],
])('accepts in %s: %s', (path, source) => {
  expect(violationsOf({ path, source: `${source}\nexport {}` })).toEqual([])
})

test('a heavy package is found through nested imports, except for types', () => {
  const tree = (keyword: string) => [
    { path: 'workers/reaper.worker.ts', source: `import { reap } from '../app/reaper/service.ts'` },
    { path: 'app/reaper/service.ts', source: `${keyword} { S3Client } from '@aws-sdk/client-s3'` },
  ]
  expect(heavyImportsOfWorkers(tree('import'))).toEqual([
    'workers/reaper.worker.ts -> app/reaper/service.ts loads @aws-sdk/client-s3; move that import above the services',
  ])
  expect(heavyImportsOfWorkers(tree('import type'))).toEqual([])
})

test('an import cycle is reported with its path, including type imports', () => {
  const tree = [
    { path: 'app/a.ts', source: `import { b } from './b.ts'` },
    { path: 'app/b.ts', source: `import type { C } from './c/c.ts'` },
    { path: 'app/c/c.ts', source: `export { b } from '../b.ts'` },
  ]
  expect(circlesOf(tree)).toEqual([
    'app/b.ts -> app/c/c.ts -> app/b.ts; move what both need to a file of its own',
  ])
  expect(circlesOf(tree.slice(0, 2))).toEqual([])
})

test('imports of every form are found, except in comments', () => {
  const source = `
    import a, { b } from './a.ts'
    import type { C } from "./c.ts"
    import {
      d,
    } from './d.ts'
    import './e.ts'
    export * from './f.ts'
    const g = await import('./g.ts')
    // import x from './x.ts'
    /* import y from './y.ts' */
    export const text = 'from here'`
  expect(importsOf(source).map(({ specifier }) => specifier)).toEqual([
    './a.ts',
    './c.ts',
    './d.ts',
    './e.ts',
    './f.ts',
    './g.ts',
  ])
})
