import { describe, expect, test } from 'bun:test'
import { AppError } from '../core/errors.ts'
import { hostName, makeCheckHost, namesOneHost } from './own-host.ts'

test.each([
  ['localhost', 'localhost'],
  ['LocalHost:8080', 'localhost'],
  ['localhost.', 'localhost'],
  ['127.0.0.1:80', '127.0.0.1'],
  ['2130706433', '127.0.0.1'],
  ['[::1]:8080', '[::1]'],
  ['[0:0:0:0:0:0:0:1]', '[::1]'],
  ['sluice.example.com', 'sluice.example.com'],
])('reads %s as the host name %s', (text, name) => expect(hostName(text)).toBe(name))

test.each([
  '',
  ' ',
  'a b',
  'a/b',
  'me@localhost',
  'localhost#x',
  'a, b',
  '[::1',
  '::1',
  'a:99999',
  '%zz',
  '.',
])("'%s' is not a host", (text) => expect(hostName(text)).toBeNull())

describe('Host header', () => {
  const check = makeCheckHost(['localhost', '127.0.0.1', '[::1]', 'sluice.example.com'])
  /** The status of the refusal; 0: the host is accepted. */
  const statusOf = (host: string | null, pattern: string | null = '/api/v1/runs') => {
    const request = new Request('http://ignored.test', host === null ? {} : { headers: { host } })
    try {
      check(request, pattern)
      return 0
    } catch (error) {
      return error instanceof AppError ? error.status : error
    }
  }

  test('accepts its own names in any spelling and with any port', () => {
    for (const host of [
      'localhost',
      'LOCALHOST:3000',
      'localhost.:80',
      '127.0.0.1:8080',
      '[::1]:1',
      'sluice.example.com',
    ])
      expect([host, statusOf(host)]).toEqual([host, 0])
  })
  test('refuses every other name with 421', () => {
    for (const host of [
      'evil.test',
      'localhost.evil.test',
      'evillocalhost',
      'a.localhost',
      '127.0.0.1.nip.io',
      '10.1.2.3',
      '[::2]',
      'evil.test:8080',
      '',
      null,
    ])
      for (const pattern of ['/api/v1/runs', '/metrics', '/catalog/*', '/healthy', null])
        expect([host, pattern, statusOf(host, pattern)]).toEqual([host, pattern, 421])
  })
  test('accepts any host for probes, which use the address of a container', () => {
    for (const pattern of ['/health', '/health/live', '/health/ready'])
      expect(statusOf('10.1.2.3', pattern)).toBe(0)
    // A probe under another name does not make that name acceptable.
    expect(statusOf('10.1.2.3')).toBe(421)
  })
  test('refuses text that is not a host with 400, for probes too', () => {
    for (const host of ['me@localhost', 'localhost/x', 'a:99999'])
      for (const pattern of ['/api/v1/runs', '/health'])
        expect([host, pattern, statusOf(host, pattern)]).toEqual([host, pattern, 400])
  })
  test('an absolute target must name the same host as the header', () => {
    for (const [target, host, isOne] of [
      ['/api/v1/runs', 'localhost', true],
      ['*', 'localhost', true],
      ['http://LocalHost:8080/api/v1/runs', 'localhost:8080', true],
      ['http://evil.test/api/v1/runs', 'localhost', false],
      ['http://localhost/api/v1/runs', 'evil.test', false],
      ['http://me@localhost/api/v1/runs', 'localhost', false],
      ['http://localhost/api/v1/runs', '', false],
      ['localhost:8080', 'localhost:8080', false],
    ] as const)
      expect([target, host, namesOneHost(target, host)]).toEqual([target, host, isOne])
  })
  test('a service with a credential accepts every host name', () => {
    const request = new Request('http://evil.test/api/v1/runs', { headers: { host: 'evil.test' } })
    expect(() => makeCheckHost(null)(request, null)).not.toThrow()
  })
})
