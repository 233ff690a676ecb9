import { expect, test } from 'bun:test'
import { tableKey } from '../../ground/names.ts'
import { NameError, parseTableName, parseZoneName } from './names.ts'

test('parses a table name with or without its namespace', () => {
  expect(parseTableName('silver.flights', 'default')).toEqual({
    namespace: 'default',
    layer: 'silver',
    name: 'flights',
  })
  expect(tableKey(parseTableName('ops.gold.route_delays', 'default'))).toBe('ops.gold.route_delays')
})

test.each([
  ['flights', "'layer.name' or 'namespace.layer.name'"],
  ['a.b.c.d', "'layer.name' or 'namespace.layer.name'"],
  ['', "'layer.name'"],
  ['copper.flights', 'the layer must be one of bronze, silver, gold, not "copper"'],
  ['silver.', 'cannot be the name of a table'],
  ['silver.Flights', 'cannot be the name of a table'],
  ['silver.a b', 'cannot be the name of a table'],
  ['No.silver.a', 'cannot be the name of a namespace'],
  ['.silver.a', 'cannot be the name of a namespace'],
])('refuses the table name %p', (text, message) => {
  expect(() => parseTableName(text, 'default')).toThrow(NameError)
  expect(() => parseTableName(text, 'default')).toThrow(message)
})

test('parses the name of a landing zone', () => {
  expect(parseZoneName('raw-flights')).toBe('raw-flights')
  for (const bad of ['', 'raw_flights', '-a', 'Raw', '../x'])
    expect(() => parseZoneName(bad)).toThrow('cannot be the name of a landing zone')
})
