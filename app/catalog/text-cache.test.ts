import { expect, test } from 'bun:test'
import { TextCache } from './text-cache.ts'

test('what was used last stays, what does not fit is forgotten', () => {
  const cache = new TextCache(8)
  cache.set('a', 'aa')
  cache.set('b', 'bb')
  expect(cache.get('a')).toBe('aa')
  cache.set('c', 'cc')
  expect([cache.get('a'), cache.get('b'), cache.get('c')]).toEqual(['aa', undefined, 'cc'])
})

test('a text larger than the cache is not kept, and a replaced one counts once', () => {
  const cache = new TextCache(8)
  cache.set('a', 'much too long')
  expect(cache.get('a')).toBeUndefined()
  for (let turn = 0; turn < 10; turn++) cache.set('a', 'aa')
  cache.set('b', 'bb')
  expect(cache.get('a')).toBe('aa')
})
