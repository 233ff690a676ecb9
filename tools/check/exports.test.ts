import { expect, test } from 'bun:test'
import { exportProblems } from './exports.ts'

const problemsOf = (files: Record<string, string>) =>
  exportProblems(Object.entries(files).map(([path, source]) => ({ path, source })))

test('an export that no other file imports is reported', () => {
  const files = { 'app/a.ts': 'export const a = 1\nexport interface B {}\n', 'app/c.ts': '' }
  expect(problemsOf(files)).toEqual([
    'app/a.ts: nothing imports a; delete it, or the word export',
    'app/a.ts: nothing imports B; delete it, or the word export',
  ])
})

test.each([
  `import { a, type B as C } from './a.ts'`,
  `import {\n  a,\n  type B,\n} from './a.ts'`,
  `import * as all from './a.ts'`,
  `const all = await import('./a.ts')`,
])('an export is in use by %s', (source) => {
  expect(
    problemsOf({ 'app/a.ts': 'export const a = 1\nexport interface B {}\n', 'app/c.ts': source }),
  ).toEqual([])
})

test.each([
  `export { a } from './a.ts'`,
  `export * from './a.ts'`,
  `import { a } from './a.ts'\nexport { a }`,
])('a file is reported that only re-exports: %s', (source) => {
  expect(
    problemsOf({
      'app/a.ts': 'export const a = 1\n',
      'app/b.ts': `// Names for others.\n${source}\n`,
      'app/c.ts': `import { a } from './b.ts'`,
    }),
  ).toEqual(['app/b.ts: only re-exports; import from the files themselves'])
})
