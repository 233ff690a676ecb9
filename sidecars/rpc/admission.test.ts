import { expect, test } from 'bun:test'
import { makeAdmission } from './admission.ts'
import { TEST_TOKEN } from './testing.ts'

const authorization = `Bearer ${TEST_TOKEN}`
const statusOf = (
  hosts: (string | null | undefined)[],
  { host = '0.0.0.0', otherHosts = [] as string[], credential = authorization as string | null } = {},
) =>
  makeAdmission({ token: TEST_TOKEN, host, otherHosts })({ hosts, authorization: credential })?.status ?? 200

test('loopback, the own address and named hosts are admitted, with any port', () => {
  for (const host of ['localhost', 'LocalHost:8081', '127.0.0.1', '127.0.0.1:8081', '[::1]', '[::1]:8081'])
    expect([host, statusOf([host])]).toEqual([host, 200])
  expect(statusOf(['10.0.0.5:8081'], { host: '10.0.0.5' })).toBe(200)
  expect(statusOf(['[fd00::1]:8081'], { host: 'fd00::1' })).toBe(200)
  expect(statusOf(['Runner-1.Internal:8081'], { otherHosts: ['runner-1.internal'] })).toBe(200)
})

test('an unknown Host is refused even with the token', () => {
  for (const host of [
    '',
    'evil.example',
    'localhost.evil.example',
    'localhost.',
    '127.0.0.1.evil.example:8081',
    'localhost:8081:8081',
    'localhost@evil.example',
    '10.0.0.5',
    '[::2]',
    '::1',
  ])
    expect([host, statusOf([host])]).toEqual([host, 421])
})

test('a request without a Host, or with an unknown one, is refused', () => {
  expect(statusOf([])).toBe(421)
  expect(statusOf([null, undefined])).toBe(421)
  expect(statusOf(['localhost', undefined])).toBe(200)
  expect(statusOf(['localhost', 'evil.example'])).toBe(421)
  expect(statusOf(['evil.example', 'localhost'])).toBe(421)
})

test('a call with a missing or wrong token is refused', () => {
  for (const credential of [null, '', 'Bearer', `Bearer ${TEST_TOKEN}x`, `Basic ${TEST_TOKEN}`])
    expect([credential, statusOf(['localhost'], { credential })]).toEqual([credential, 401])
})
