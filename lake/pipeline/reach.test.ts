import { expect, test } from 'bun:test'
import { reachable } from './reach.ts'

const EDGES = ['a>b', 'b>c', 'a>c', 'x>c', 'c>d', 'p>q', 'q>p'].map((text) => {
  const [source = '', target = ''] = text.split('>')
  return { source, target }
})

test('finds everything upstream and downstream of a node, and the node', () => {
  expect([...reachable('c', EDGES, 'upstream')].sort()).toEqual(['a', 'b', 'c', 'x'])
  expect([...reachable('b', EDGES, 'downstream')].sort()).toEqual(['b', 'c', 'd'])
})

test('ends in a cycle, and finds only the node when it has no edge', () => {
  expect([...reachable('p', EDGES, 'downstream')].sort()).toEqual(['p', 'q'])
  expect([...reachable('nowhere', EDGES, 'upstream')]).toEqual(['nowhere'])
})
