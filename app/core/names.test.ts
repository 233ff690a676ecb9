import { expect, test } from 'bun:test'
import { Value } from '@sinclair/typebox/value'
import { Layer, NamespaceName, PipelineName, TestName, Uuid, ZoneName } from './names.ts'

const long = (length: number) => 'a'.repeat(length)

test.each([
  [
    'a namespace',
    NamespaceName,
    ['abc', 'a-1', long(63)],
    ['ab', long(64), '1ab', '-ab', 'a_b', 'Abc', 'abc\n', 'äbc'],
  ],
  [
    'a pipeline',
    PipelineName,
    ['a', '1', 'a_b-c', long(128)],
    ['', long(129), '_a', '-a', 'a.b', 'a/b', 'A', '..'],
  ],
  ['a zone', ZoneName, ['a', '1-a', long(128)], ['', long(129), '-a', 'a_b', 'a/b', 'A']],
  ['a quality test', TestName, ['a', 'no-null-keys'], ['', '-a', 'a_b', 'a.sql', '../a']],
  ['a layer', Layer, ['bronze', 'silver', 'gold'], ['', 'Gold', 'lead']],
  ['an id', Uuid, ['01A1fd3a-9a8a-7705-8c3b-f06e815d5488'], ['', '1', '01a1fd3a9a8a77058c3bf06e815d5488']],
])('the name of %s follows the rule of the specification', (_, schema, good, bad) => {
  expect(good.filter((name) => !Value.Check(schema, name))).toEqual([])
  expect(bad.filter((name) => Value.Check(schema, name))).toEqual([])
})
