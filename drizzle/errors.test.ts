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
])('%s passes by itself', (code) => expect(isPassing(withCode(code))).toBe(true))

test.each(['22P05', '23505', '42P01', 'XX000', 'ENOENT', 'UNAVAILABLE', 404, 530, undefined])(
  '%p does not',
  (code) => expect(isPassing(withCode(code))).toBe(false),
)

test('a connection is told by what an error was caused by, too, and by nothing that only sounds like it', () => {
  expect(isOfConnection(withCode('other', withCode('ENETUNREACH')))).toBe(true)
  expect(isOfConnection(withCode('40001'))).toBe(false)
  expect(isOfConnection('ECONNRESET')).toBe(false)
})
