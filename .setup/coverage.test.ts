import { expect, test } from 'bun:test'
import { pageOf, problemsOf } from './coverage.ts'

const table = (...rows: { id: string; test?: string; notYet?: string }[]) => [
  { title: 'Runs', rows: rows.map((row) => ({ text: 'What | it is', ...row })) },
]

test('a row needs a test that exists, or a reason', () => {
  const titles = ['runs.spec.ts › a run', 'runs.spec.ts › twice', 'runs.spec.ts › twice']
  expect(
    problemsOf(table({ id: 'a', test: 'runs.spec.ts › a run' }, { id: 'b', notYet: 'Later' }), titles),
  ).toEqual([])
  expect(problemsOf(table({ id: 'a' }), titles)).toEqual(['a: no test, and no reason why not'])
  expect(problemsOf(table({ id: 'a', test: 'runs.spec.ts › gone' }), titles)).toEqual([
    "a: there is no test 'runs.spec.ts › gone'",
  ])
  expect(problemsOf(table({ id: 'a', test: 'runs.spec.ts › twice' }), titles)[0]).toContain('several tests')
  expect(problemsOf(table({ id: 'a', test: 'runs.spec.ts › a run', notYet: 'x' }), titles)[0]).toContain(
    'not missing any more',
  )
  expect(problemsOf(table({ id: 'a', notYet: 'x' }, { id: 'a', notYet: 'x' }), titles)).toEqual([
    'a: two rows have this id',
  ])
})

test('the page counts what is missing and keeps its table whole', () => {
  const page = pageOf(table({ id: 'a', test: 'runs.spec.ts › a run' }, { id: 'b', notYet: 'Later' }))
  expect(page).toContain('2 rows, 1 of them with an end-to-end test, 1 without')
  expect(page).toContain('| `a` | What \\| it is | runs.spec.ts › a run |')
})
