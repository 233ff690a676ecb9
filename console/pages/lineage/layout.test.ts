import { expect, test } from 'bun:test'
import { fingerprintOf, inLayers } from './layout.ts'

const edge = (text: string) => {
  const [source = '', target = ''] = text.split('>')
  return { source, target }
}
const EDGES = ['a>b', 'b>c', 'a>c', 'x>c', 'c>d'].map(edge)

test('each node stands right of all its sources', () => {
  const places = inLayers(['a', 'b', 'c', 'd', 'x'], EDGES)
  for (const { source, target } of EDGES)
    expect(places.get(target)?.x).toBeGreaterThan(places.get(source)?.x ?? Number.POSITIVE_INFINITY)
})

test('the fingerprint changes when an edge gets another end, and not with the order', () => {
  const ids = ['a', 'b', 'c', 'd']
  const before = fingerprintOf(ids, ['a>b', 'c>d'].map(edge))
  expect(fingerprintOf(ids.toReversed(), ['c>d', 'a>b'].map(edge))).toBe(before)
  for (const edges of [['a>d', 'c>b'], ['a>b', 'd>c'], ['a>b', 'a>d'], ['a>b']])
    expect(fingerprintOf(ids, edges.map(edge))).not.toBe(before)
  expect(fingerprintOf(['a', 'b', 'c', 'e'], ['a>b', 'c>d'].map(edge))).not.toBe(before)
})

test('no two nodes share a place, not even in a cycle', () => {
  const places = inLayers(['a', 'b', 'c'], ['a>b', 'b>a', 'b>c', 'c>nowhere'].map(edge))
  expect(new Set([...places.values()].map(({ x, y }) => `${x} ${y}`)).size).toBe(3)
})

test('5,000 nodes get their places within a moment', () => {
  const ids = Array.from({ length: 5_000 }, (_, n) => String(n))
  const edges = ids.slice(1).map((id, n) => ({ source: String(n >> 1), target: id }))
  expect(inLayers(ids, edges).size).toBe(5_000)
})
