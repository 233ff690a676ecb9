import { describe, expect, test } from 'bun:test'
import { pathFromUrl } from '../wire/paths.ts'
import { asSent, unresolved } from './file-addresses.ts'

const FILES = '/api/v1/files/'
const RESOLVED = [
  'a/../b',
  'a/%2e%2e/b',
  'a/.%2E/b',
  'a/./b',
  'a/%2e/b',
  'a/..',
  '..',
  '.',
  'a\\b',
  'a\\..\\b',
  'a//../b',
]
const KEPT = [
  'a/b',
  'a/...',
  'a/..b',
  'a/b..',
  'a/.b',
  'a/%2e%2eb',
  'a//b',
  'a/',
  '',
  'a/%252e%252e/b',
  'a%2f..%2fb',
  'é/ü',
]
/** These become addresses of files only when a server resolves them. */
const SENT_AS_ANOTHER = [
  '/api/v1\\files/ns/../b',
  '/api/v1/files\\ns\\..\\b',
  '/api/v1/files\\ns\\b',
  '/api/v1/x/../files/ns/../b/c',
  '/api/v1/./files/ns/b/../c',
  '/api/v1/%2e/files/ns/b',
  '/health/%2E./api/v1/files/ns/b',
]

describe('file addresses', () => {
  test.each(RESOLVED)('%s is forwarded in a spelling that the path rules refuse', (rest) => {
    const { pathname } = new URL(unresolved(FILES + rest), 'http://localhost')
    expect(pathname.startsWith(FILES)).toBe(true)
    expect(() => pathFromUrl(pathname.slice(FILES.length))).toThrow(/^path: /)
  })

  test.each(KEPT)('%s is forwarded unchanged', (rest) => {
    expect(unresolved(FILES + rest)).toBe(FILES + rest)
    const request = new Request(`http://localhost${FILES}${rest}`)
    expect(asSent(request)).toBe(request)
  })

  test.each(SENT_AS_ANOTHER)('%s resolves to a file address and is refused', (address) => {
    for (const sent of [address, `http://a${address}`, `http://a${address}?x=y`]) {
      const { pathname } = new URL(unresolved(sent), 'http://localhost')
      expect(pathname.startsWith(FILES)).toBe(true)
      expect(() => pathFromUrl(pathname.slice(FILES.length))).toThrow(/^path: /)
    }
  })

  test('forwards query strings and addresses of other resources unchanged', () => {
    for (const address of [
      `${FILES}a/b?x=/../y`,
      `/health?x=/..${FILES}a`,
      '/api/v1/%66iles/../%66iles/a',
      '/api/v1/x/../files?prefix=a',
      '/health/..',
      '*',
      '//..',
    ])
      expect(unresolved(address)).toBe(address)
    expect(unresolved(`http://a${FILES}a/../b`)).not.toContain('/../')
  })
})
