import { expect, test } from 'bun:test'
import { isTableDirectory, isTableFile } from './lake-keys.ts'

const table = { namespace: 'default', layer: 'gold', name: 'a' } as const

test('isTableFile accepts files in the data and metadata directories of its table', () => {
  expect(isTableFile(table, '_lake/default/gold/a-0123abcd/data/x.parquet')).toBe(true)
  expect(isTableFile(table, '_lake/default/gold/a-0123abcd/metadata/snap-1.avro')).toBe(true)
  expect(isTableDirectory(table, '_lake/default/gold/a-0123abcd')).toBe(true)
})

test('isTableFile and isTableDirectory reject every other key', () => {
  for (const key of [
    '_lake/default/gold/a-b-0123abcd/data/x.parquet',
    '_lake/default/gold/a-0123abcd-0123abcd/data/x.parquet',
    '_lake/default/gold/a-0123abcd',
    '_lake/default/gold/a-0123abcd/x.parquet',
    '_lake/default/gold/a-0123abcd/data/',
    '_lake/default/gold/a-0123abcd/data/b/x.parquet',
    '_lake/default/gold/a-0123abcd/data/%2e%2e',
    '_lake/default/gold/a-0123ABCD/data/x.parquet',
    '_lake/default/silver/a-0123abcd/data/x.parquet',
    '_lake/default/gold/ab-0123abcd/data/x.parquet',
    'default/pipelines/gold/a/pipeline.sql',
    '',
  ])
    expect([key, isTableFile(table, key)]).toEqual([key, false])
  expect(isTableDirectory(table, '_lake/default/gold/a-0123abcd/data')).toBe(false)
})
