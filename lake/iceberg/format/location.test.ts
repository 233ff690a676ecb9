import { expect, test } from 'bun:test'
import {
  BadLocation,
  dataLocation,
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
