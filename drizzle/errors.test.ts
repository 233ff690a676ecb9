import { expect, test } from 'bun:test'
import { isOfConnection, isPassing } from './errors.ts'

const withCode = (code: unknown, cause?: unknown) => Object.assign(new Error('no', { cause }), { code })

test.each([
  '40P01',
  '40001',
  '53300',
  '55P03',
  '57P01',
  '08006',
  'ECONNREFUSED',
  'EHOSTUNREACH',
  'CONNECTION_CLOSED',
])('%s is a temporary error', (code) => expect(isPassing(withCode(code))).toBe(true))

test.each(['22P05', '23505', '42P01', 'XX000', 'ENOENT', 'UNAVAILABLE', 404, 530, undefined])(
  '%p is not a temporary error',
  (code) => expect(isPassing(withCode(code))).toBe(false),
)

test('only codes of an error and its causes mean a lost connection', () => {
  expect(isOfConnection(withCode('other', withCode('ENETUNREACH')))).toBe(true)
  expect(isOfConnection(withCode('40001'))).toBe(false)
  expect(isOfConnection('ECONNRESET')).toBe(false)
})
