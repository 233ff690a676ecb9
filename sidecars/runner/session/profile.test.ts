import { expect, test } from 'bun:test'
import { readProfile } from './profile.ts'

const operator = (name: string, more: object = {}) => ({
  operator_name: name,
  operator_cardinality: 1,
  operator_timing: 0.0015,
  extra_info: {},
  children: [],
  ...more,
})
const profile = (...children: object[]) =>
  JSON.stringify({ system_peak_buffer_memory: 10, system_peak_temp_dir_size: 20, children })

test('a profile becomes a tree of operators with rows, times and details', () => {
  const text = profile(
    operator('HASH_JOIN ', {
      operator_cardinality: 12_345,
      extra_info: { 'Join Type': 'INNER', Nothing: '', Conditions: ['a = b', 'c = d'] },
      children: [
        operator('READ_CSV', { extra_info: { 'Filename(s)': '/srv/scratch/a.csv, /srv/scratch/b.csv' } }),
        operator('FILTER', { children: [operator('RANGE', { extra_info: { Function: 'RANGE' } })] }),
      ],
    }),
  )
  expect(readProfile(text)).toEqual({
    memoryPeakBytes: 10,
    diskPeakBytes: 20,
    operators: 4,
    tree: [
      'HASH_JOIN  12,345 rows, 1.50 ms',
      '│ Join Type: INNER',
      '│ Conditions: a = b, c = d',
      '├─ READ_CSV  1 row, 1.50 ms',
      '│    Filename(s): a.csv, b.csv',
      '└─ FILTER  1 row, 1.50 ms',
      '   └─ RANGE  1 row, 1.50 ms',
      '        Function: RANGE',
    ].join('\n'),
  })
})

test('a large plan is shown in part', () => {
  const many = readProfile(profile(...Array.from({ length: 700 }, () => operator('SCAN'))))
  expect(many.operators).toBe(700)
  expect(many.tree.split('\n')).toHaveLength(501)
  expect(many.tree).toEndWith('... 200 more operators')
  const wide = readProfile(profile(operator('FILTER', { extra_info: { Expression: 'x'.repeat(1_000) } })))
  expect(wide.tree.length).toBeLessThan(400)
})

test('rejects a profile of an unknown format', () => {
  for (const text of ['{}', '[]', '"x"', profile({ operator_name: 1 })])
    expect(() => readProfile(text)).toThrow('unknown format')
})
