import { expect, test } from 'bun:test'
import { sparkAddressIn } from './address.ts'

const ADDRESSES: [string, ReturnType<typeof sparkAddressIn>][] = [
  ['sc://spark', { url: 'http://spark:15002', token: null, userId: 'sluice' }],
  ['sc://spark:1234', { url: 'http://spark:1234', token: null, userId: 'sluice' }],
  ['sc://[::1]:1234/', { url: 'http://[::1]:1234', token: null, userId: 'sluice' }],
  ['sc://spark/;use_ssl=true;user_id=etl', { url: 'https://spark:15002', token: null, userId: 'etl' }],
  ['sc://spark:443/;token=a%3Db', { url: 'https://spark:443', token: 'a=b', userId: 'sluice' }],
  ['http://spark', null],
  ['sc://', null],
  ['sc://a@b', null],
  ['sc://spark/;password=x', null],
  ['sc://spark/;token', null],
  ['sc://spark:123456', null],
]
test.each(ADDRESSES)('the address %s is read', (text, expected) => {
  expect(sparkAddressIn(text)).toEqual(expected)
})
