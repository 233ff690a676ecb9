import { expect, test } from 'bun:test'
import { linesByFolder, overBudget, tooLong, unlistedFolders } from './folders.ts'

test('every folder of the repository is listed, and every listed folder exists', () => {
  expect(unlistedFolders()).toEqual([])
})

test('a folder with more lines than its budget is reported with both numbers', () => {
  const lines = linesByFolder([{ path: 'proto/a.ts', source: 'a\n'.repeat(101) }])
  expect(overBudget(lines)).toEqual([
    'proto/ has 101 production lines, and its budget is 100: delete some, or raise the budget',
  ])
})

test('a production file over 400 lines needs a reason in its header', () => {
  const source = 'a\n'.repeat(401)
  const reason = '/** Over 400 lines because the table of cases is one. */\n'
  expect(tooLong([{ path: 'app/a.ts', source }])).toHaveLength(1)
  expect(tooLong([{ path: 'app/a.test.ts', source }])).toEqual([])
  expect(tooLong([{ path: 'app/a.ts', source: `${reason}${source}` }])).toEqual([])
})
