import { describe, expect, test } from 'bun:test'
import { acceptedCoding, CODINGS } from './accept-encoding.ts'

const codingFor = (header: string | null) => acceptedCoding(header, CODINGS).coding

describe('content coding', () => {
  test.each([
    [null, null],
    ['', null],
    ['identity', null],
    ['gzip', 'gzip'],
    ['x-gzip', 'gzip'],
    ['GZIP', 'gzip'],
    ['deflate', null],
    ['gzip, deflate, br', 'br'],
    ['gzip, deflate, br, zstd', 'zstd'],
    ['*', 'gzip'],
    ['gzip;q=0', null],
    ['gzip;q=0.0, br;q=0.000', null],
    ['gzip;q=1.0, br;q=0.5', 'gzip'],
    ['gzip ; q=0.001', 'gzip'],
    ['gzip;q=0, *', 'br'],
    ['gzip, *;q=0', 'gzip'],
    ['*;q=0', null],
    ['identity;q=1, gzip;q=0.5', null],
    ['identity;q=0.5, gzip;q=0.5', 'gzip'],
    ['gzip;q=2', null],
    ['gzip;q=high', null],
    ['gzip;level=9', null],
    [';;,,gzip', 'gzip'],
    [`${'a,'.repeat(10_000)}gzip`, null],
  ])('for %j the coding is %p', (header, coding) => {
    expect(codingFor(header)).toBe(coding as never)
  })

  test('chooses only codings that the runtime has', () => {
    expect(acceptedCoding('zstd, gzip;q=0.1', ['br', 'gzip']).coding).toBe('gzip')
    expect(acceptedCoding('*', ['gzip']).coding).toBe('gzip')
  })

  test.each([
    ['identity;q=0', true],
    ['*;q=0', true],
    ['*;q=0, identity', false],
    ['gzip', false],
    [null, false],
  ])('reads from %j whether identity is refused', (header, refusesIdentity) => {
    expect(acceptedCoding(header, CODINGS).refusesIdentity).toBe(refusesIdentity)
  })
})
