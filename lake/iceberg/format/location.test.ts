import { expect, test } from 'bun:test'
import {
  BadLocation,
  dataLocation,
  keyIn,
  keyOf,
  locationOf,
  manifestListLocation,
  metadataLocation,
  tableLocation,
} from './location.ts'

const roots = ['s3://bucket/', 'file:///var/lib/sluice/objects/']
const name = { namespace: 'default', layer: 'gold', name: 'route_delays' } as const
const uuid = '0f8fad5b-d9cb-469f-a165-70867728950e'

test.each(roots)('converts locations below %s to keys and back', (root) => {
  const table = tableLocation(root, name, uuid)
  expect(table).toBe(`${root}_lake/default/gold/route_delays-0f8fad5b`)
  for (const location of [
    dataLocation(table, 'a'),
    metadataLocation(table, 3, 'b'),
    manifestListLocation(table, 5n, 'c'),
  ]) {
    expect(locationOf(root, keyOf(root, location))).toBe(location)
  }
  expect(keyOf(root, metadataLocation(table, 3, 'b'))).toBe(
    '_lake/default/gold/route_delays-0f8fad5b/commits/00003-b.metadata.json',
  )
})

test.each([
  's3://other/_lake/default/gold/t/data/a.parquet',
  's3://bucket',
  's3://bucket/default/gold/t.sql',
  's3://bucket/_lake',
  's3://bucket/_lake/',
  's3://bucket/_lake/../secret',
  's3://bucket/_lake/./a',
  's3://bucket/_lake//a',
  's3://bucket/_lake/a/..',
  's3://bucket/_lake/a\\..\\b',
  's3://bucket/_lake/%2e%2e/b',
  's3://bucket/_lake/%2E./b',
  's3://bucket/_lake/%25252e%252E/b',
  's3://bucket/_lake/a%2F..%2fb',
  's3://bucket/_lake/a%5C..%5Cb',
  's3://bucket/_lake/a%2500b',
  's3://bucket/_lake/a\nb',
  's3://bucket/_lake/a?b',
  'file:///etc/passwd',
  '',
])('refuses the location %j', (location) =>
  expect(() => keyOf('s3://bucket/', location)).toThrow(BadLocation),
)

test('refuses a name that leads out of the lake', () => {
  expect(() => tableLocation('s3://bucket/', { ...name, name: '../../x' }, uuid)).toThrow(BadLocation)
  expect(() => locationOf('s3://bucket', '_lake/a')).toThrow('does not end in a slash')
})

test.each(['p=a%2Fb', 'p=50%25', 'p=%', 'p=100%zz', 'p=a b+c', 'p=größe😀', 'p=%2E', 'p=..%2F', 'p=%252Fx'])(
  'accepts the partition directory %j and keeps its text',
  (directory) => {
    const key = `_lake/default/gold/t-01234567/data/${directory}/a.parquet`
    expect(keyOf('s3://bucket/', `s3://bucket/${key}`)).toBe(key)
    expect(keyIn(`s3://bucket/${key}`)).toBe(key)
  },
)
