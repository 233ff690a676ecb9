import { expect, test } from 'bun:test'
import { sizeOf, structureProblems } from './structure.ts'

const problems = (path: string, source: string) => structureProblems([{ path, source }])

test.each([
  ['app/runs/service.ts', 'await sql`select 1`'],
  ['app/runs/service.ts', 'await tx.unsafe(text)'],
  ['app/runs/service.ts', `import { eq } from 'drizzle-orm'\neq(a, b)`],
  ['workers/scheduler.ts', `import { run } from '../drizzle/schema/run.ts'\nuse(run)`],
])('%s may not contain SQL: %s', (path, source) => {
  expect(problems(path, source)).toEqual([
    `${path}: contains SQL; move the statement to the store of its slice`,
  ])
})

test.each([
  ['app/runs/store.ts', 'await sql`select 1`'],
  ['app/runs/store/list.ts', 'await sql`select 1`'],
  ['drizzle/visibility.ts', 'sql`true`'],
  ['app/runs/service.ts', `import type { run } from '../../drizzle/schema/run.ts'`],
  ['app/runs/service.ts', '// sql`select 1`'],
  ['app/runs/service.test.ts', 'await sql`select 1`'],
])('%s may contain: %s', (path, source) => {
  expect(problems(path, source)).toEqual([])
})

test('undocumented members of a library are reported', () => {
  expect(problems('lake/arrow.ts', 'writer._started = true')).toEqual([
    'lake/arrow.ts: uses ._started; use what the documentation of the library names',
  ])
  expect(problems('drizzle/places.ts', 'statement.handler = () => {}')[0]).toContain('statement.handler')
})

test('a component of the console names no query and encodes no address', () => {
  const source = 'useQuery({ queryKey: ["runs"] })'
  expect(problems('console/pages/runs/list.tsx', source)).toEqual([
    'console/pages/runs/list.tsx: contains queryKey; call a function of console/api/',
  ])
  expect(problems('console/api/runs.ts', source)).toEqual([])
})

test('a route of the console has typed filters and a loader', () => {
  const complete = 'createRoute({ path, validateSearch: filtersIn, loader: () => prefetch(data) })'
  expect(problems('console/router.tsx', complete)).toEqual([])
  expect(
    problems('console/router.tsx', `${complete}, createRoute({ path, validateSearch: filtersIn })`),
  ).toEqual(['console/router.tsx: a route has no loader; make the route with page()'])
})

test('at most ten functions may exceed the length limit', () => {
  const source = '// biome-ignore lint/complexity/noExcessiveLinesPerFunction: a table of cases'
  const files = Array.from({ length: 11 }, (_, n) => ({ path: `app/long-${n}.ts`, source }))
  expect(structureProblems(files)).toHaveLength(1)
  expect(structureProblems(files.slice(1))).toEqual([])
})

test('the size counts the lines of each folder without tests', () => {
  expect(
    sizeOf([
      { path: 'app/a.ts', source: 'a\nb\n' },
      { path: 'app/a.test.ts', source: 'a\n' },
    ]),
  ).toStartWith('2 lines of code without tests: app 2, ')
})
