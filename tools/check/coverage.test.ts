import { expect, test } from 'bun:test'
import { pageOf, problemsOf } from './coverage.ts'

const table = (...rows: { id: string; test: string }[]) => [
  { title: 'Runs', rows: rows.map((row) => ({ text: 'What | it is', ...row })) },
]

test('a row needs one test that exists', () => {
  const titles = ['runs.spec.ts › a run', 'runs.spec.ts › twice', 'runs.spec.ts › twice']
  const problem = (name: string) => problemsOf(table({ id: 'a', test: name }), titles)
  expect(problem('runs.spec.ts › a run')).toEqual([])
  expect(problem('')).toEqual(["a: there is no test ''"])
  expect(problem('runs.spec.ts › gone')).toEqual(["a: there is no test 'runs.spec.ts › gone'"])
  expect(problem('runs.spec.ts › twice')[0]).toContain('several tests')
  const row = { id: 'a', test: 'runs.spec.ts › a run' }
  expect(problemsOf(table(row, row), titles)).toEqual(['a: two rows have this id'])
})

test('the page counts its rows and keeps its table whole', () => {
  const page = pageOf(table({ id: 'a', test: 'runs.spec.ts › a run' }))
  expect(page).toContain('1 rows, each with an end-to-end test.')
  expect(page).toContain('| `a` | What \\| it is | runs.spec.ts › a run |')
})
