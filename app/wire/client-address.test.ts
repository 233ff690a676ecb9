import { expect, test } from 'bun:test'
import { makeSenderOf, networksOf } from './client-address.ts'

const networks = (...texts: string[]) => networksOf(texts) ?? expect.unreachable('no networks')
const loopback = makeSenderOf(networks('127.0.0.0/8', '::1'))
const from = (peer: string | null, forwarded?: string, address = loopback) =>
  address(
    new Request(
      'http://x.test/',
      forwarded === undefined ? {} : { headers: { 'x-forwarded-for': forwarded } },
    ),
    { address: peer },
  ).address

test('ignores X-Forwarded-For from a connection that is no trusted proxy', () => {
  expect(from('203.0.113.7')).toBe('203.0.113.7')
  expect(from('203.0.113.7', '10.0.0.1')).toBe('203.0.113.7')
  expect(from('127.0.0.1')).toBe('127.0.0.1')
  expect(from('::1')).toBe('::1')
  expect(from('2001:DB8::1', '10.0.0.1')).toBe('2001:db8::1')
})

test('reports the address of the connection beside the forwarded address', () => {
  const request = new Request('http://x.test/', { headers: { 'x-forwarded-for': '203.0.113.7' } })
  expect(loopback(request, { address: '::ffff:127.0.0.1' })).toEqual({
    address: '203.0.113.7',
    peer: '127.0.0.1',
  })
  expect(loopback(request, { address: '198.51.100.1' })).toEqual({
    address: '198.51.100.1',
    peer: '198.51.100.1',
  })
})

test('accepts the address that a trusted proxy forwards', () => {
  for (const peer of ['127.0.0.1', '::1', '::ffff:127.0.0.1'])
    expect(from(peer, '203.0.113.7')).toBe('203.0.113.7')
  expect(from('127.0.0.1', '203.0.113.7:4711')).toBe('203.0.113.7')
  expect(from('127.0.0.1', '[2001:db8::1]:443')).toBe('2001:db8::1')
  expect(from('127.0.0.1', '::ffff:203.0.113.7')).toBe('203.0.113.7')
})

test('ignores entries that a client added before the first proxy', () => {
  expect(from('127.0.0.1', '1.1.1.1, 203.0.113.7')).toBe('203.0.113.7')
  expect(from('127.0.0.1', '1.1.1.1, 203.0.113.7, 127.0.0.2')).toBe('203.0.113.7')
})

test('uses the first untrusted address of a proxy chain, or the farthest', () => {
  const chain = makeSenderOf(networks('10.0.0.0/8', 'fd00::/8', '127.0.0.1'))
  expect(from('127.0.0.1', '203.0.113.7, fd00::5, 10.1.2.3', chain)).toBe('203.0.113.7')
  expect(from('127.0.0.1', '10.9.9.9, 10.1.2.3', chain)).toBe('10.9.9.9')
  expect(from('127.0.0.2', '203.0.113.7', chain)).toBe('127.0.0.2')
})

test('stops at an invalid address, and is empty without any address', () => {
  expect(from('127.0.0.1', 'unknown')).toBe('127.0.0.1')
  expect(from('127.0.0.1', '<script>, 127.0.0.3')).toBe('127.0.0.3')
  expect(from('127.0.0.1', ' , ')).toBe('127.0.0.1')
  expect(from(null, '203.0.113.7')).toBe('')
  expect(from('/tmp/a.sock', '203.0.113.7')).toBe('')
})

test('accepts networks with or without a prefix length', () => {
  for (const text of ['10.0.0.1', '10.0.0.0/8', '0.0.0.0/0', 'fd00::/8', '::1', '::/0'])
    expect([text, networksOf([text])]).not.toEqual([text, null])
  for (const text of [
    '',
    'proxy',
    '10.0.0',
    '10.0.0.0/33',
    '10.0.0.0/-1',
    '10.0.0.0/',
    '10.0.0.0/8/8',
    '::1/129',
  ])
    expect([text, networksOf([text])]).toEqual([text, null])
})
