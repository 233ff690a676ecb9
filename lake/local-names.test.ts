import { expect, test } from 'bun:test'
import { keyOfLocalName, localNameOf } from './local-names.ts'

test('a local name has no character of a pattern, and names its key', () => {
  for (const key of ['p=a~b', 'p=*?', 'p=[a]{b,c}', 'p=%7E~7E', 'p=a%2Ab', '~', 'p=~2A*', "p=a b+c=d:e'f"]) {
    expect([key, /[*?[\]{}]/.test(localNameOf(key))]).toEqual([key, false])
    expect(keyOfLocalName(localNameOf(key))).toBe(key)
  }
})

test('a key without characters of a pattern is its own local name', () => {
  const key = '_lake/default/gold/t-01234567/data/p=50%25/größe/x.parquet'
  expect([localNameOf(key), keyOfLocalName(key)]).toEqual([key, key])
})
