import { expect, test } from 'bun:test'
import { Lru } from './lru.ts'

test('what was used least recently goes first, when the weights pass the limit', () => {
  const lru = new Lru<string, number>(10)
  lru.set('a', 1, 4)
  lru.set('b', 2, 4)
  expect(lru.get('a')).toBe(1)
  lru.set('c', 3, 4)
  expect([...lru.values()]).toEqual([1, 3])
  expect(lru.get('b')).toBeUndefined()
})

test('a value that is set again counts once', () => {
  const lru = new Lru<string, number>(10)
  for (let n = 0; n < 100; n += 1) lru.set('a', n, 5)
  lru.set('b', 1, 5)
  expect([lru.get('a'), lru.get('b')]).toEqual([99, 1])
})

test('one that is too heavy alone stays until the next', () => {
  const lru = new Lru<string, number>(10)
  lru.set('heavy', 1, 11)
  expect(lru.get('heavy')).toBe(1)
  lru.set('light', 2, 1)
  expect([...lru.values()]).toEqual([2])
})
