import { expect, test } from 'bun:test'
import { parseTest, testNameOf, testValue } from './quality.ts'

test('finds quality tests by folder, extension and valid name', () => {
  expect(testNameOf('tests/quality/no-nulls.sql')).toBe('no-nulls')
  expect(testNameOf('default/pipelines/silver/flights/tests/quality/no-nulls.sql')).toBe('no-nulls')
  for (const path of [
    'tests/no-nulls.sql',
    'tests/quality/A.sql',
    'tests/quality/a/b.sql',
    'tests/quality/a.md',
  ])
    expect(testNameOf(path)).toBeUndefined()
})

test('reads the header of a quality test', () => {
  const text = `-- @severity: warn
-- @engine: spark
-- @description: no flight without a day
-- @tags: nulls, , core
-- @remediation: ask the airport
SELECT 1 -- @severity: error`
  expect(parseTest('days', { path: 't.sql', text })).toEqual({
    test: {
      name: 'days',
      severity: 'warn',
      engine: 'spark',
      description: 'no flight without a day',
      tags: ['nulls', 'core'],
      remediation: 'ask the airport',
    },
    errors: [],
    warnings: [],
  })
})

test('gates by default, also with an invalid severity', () => {
  expect(parseTest('a', { path: 't.sql', text: 'SELECT 1' }).test.severity).toBe('error')
  const {
    test: quality,
    errors,
    warnings,
  } = parseTest('a', {
    path: 't.sql',
    text: '-- @severity: mild\n-- @owner: me\nSELECT 1',
  })
  expect(quality.severity).toBe('error')
  expect(errors).toEqual([
    { file: 't.sql', line: 1, key: 'severity', message: 'severity: must be error or warn, not "mild"' },
  ])
  expect(warnings.map(({ key, line }) => [key, line])).toEqual([['owner', 2]])
})

test.each([
  ['a count', ['BIGINT'], 1, 3, 3],
  ['a count of 0', ['BIGINT'], 1, 0, 0],
  ['a sum in text', ['HUGEINT'], 1, '12345678901234567890', Number.MAX_SAFE_INTEGER],
  ['a decimal', ['DECIMAL(38,2)'], 1, '0.40', 1],
  ['a fraction below 0', ['DOUBLE'], 1, -0.4, -1],
  ['a sum without rows', ['HUGEINT'], 1, null, 1],
  ['no rows', ['INTEGER'], 0, undefined, 0],
  ['rows of one column', ['INTEGER'], 5, 0, 5],
  ['one row of two columns', ['INTEGER', 'VARCHAR'], 1, 0, 1],
  ['one text', ['VARCHAR'], 1, '0', 1],
  ['one boolean', ['BOOLEAN'], 1, false, 1],
] as const)('counts %s (%p, %p row(s), %p) as %p', (_, columnTypes, rowCount, first, value) => {
  expect(testValue({ columnTypes, rowCount, first })).toBe(value)
})
