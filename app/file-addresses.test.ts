import { afterAll, describe, expect, test } from 'bun:test'
import { asSent, unresolved, unresolvedRoutes } from './file-addresses.ts'
import { filePath, pathFromUrl } from './files/paths.ts'

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
/** Not addresses of files before they are resolved. */
const SENT_AS_ANOTHER = [
  '/api/v1\\files/ns/../b',
  '/api/v1/files\\ns\\..\\b',
  '/api/v1/files\\ns\\b',
  '/api/v1/x/../files/ns/../b/c',
  '/api/v1/./files/ns/b/../c',
  '/api/v1/%2e/files/ns/b',
  '/health/%2E./api/v1/files/ns/b',
]

describe('an address of a file', () => {
  test.each(RESOLVED)('%s is handed on so that it is judged as it was sent', (rest) => {
    const { pathname } = new URL(unresolved(FILES + rest), 'http://localhost')
    expect(pathname.startsWith(FILES)).toBe(true)
    expect(() => pathFromUrl(pathname.slice(FILES.length))).toThrow(/^path: /)
  })

  test.each(KEPT)('%s is left as it is', (rest) => {
    expect(unresolved(FILES + rest)).toBe(FILES + rest)
    const request = new Request(`http://localhost${FILES}${rest}`)
    expect(asSent(request)).toBe(request)
  })

  test.each(SENT_AS_ANOTHER)('%s, which is resolved to one, is refused as one', (address) => {
    for (const sent of [address, `http://a${address}`, `http://a${address}?x=y`]) {
      const { pathname } = new URL(unresolved(sent), 'http://localhost')
      expect(pathname.startsWith(FILES)).toBe(true)
      expect(() => pathFromUrl(pathname.slice(FILES.length))).toThrow(/^path: /)
    }
  })

  test('a query, and addresses of other things, are no path', () => {
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

describe('a router that sees addresses as they were sent', () => {
  const server = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    ...unresolvedRoutes(({ url }, server: Bun.Server<undefined>, sent) =>
      Response.json([new URL(url).pathname, server.requestIP(sent)?.address]),
    ),
  })
  afterAll(() => server.stop(true))
  const handedOn = async (target: string): Promise<[path: string, ip: string]> =>
    JSON.parse((await rawGet(server.port ?? 0, target)).body)

  test('hands on what is a path, and nothing that it resolves to', async () => {
    const folder = `default/${'a/'.repeat(62)}`
    for (const [rest, isPath] of [
      ['default/a', true],
      [`${folder}a`, true],
      ['default/x/%2e%2e/a', false],
      ['default//%2e%2e/a', false],
      [`${folder}a/b/%2e%2e/%2e%2e`, false],
    ] as const) {
      const [path] = await handedOn(FILES + rest)
      const read = () => filePath(decodeURIComponent(path.slice(FILES.length)))
      if (isPath) expect(read()).toBe(rest)
      else expect(read).toThrow(/^path: /)
    }
  })

  test.each(SENT_AS_ANOTHER)('refuses %s, which is resolved to a path', async (target) => {
    for (const sent of [target, `http://a${target}`]) {
      const [path] = await handedOn(sent)
      expect(path.startsWith(FILES)).toBe(true)
      expect(() => pathFromUrl(path.slice(FILES.length))).toThrow(/^path: /)
    }
  })

  test('leaves addresses of other things as they are', async () => {
    for (const path of ['/health', '/api/v1/files', '/api/v1/%66iles/ns/b', '/api/v1//files/ns/b'])
      expect((await handedOn(path))[0]).toBe(path)
    expect((await handedOn(`http://a${FILES}ns/b`))[0]).toBe(`${FILES}ns/b`)
  })

  test('tells who sent what it hands on in another spelling', async () => {
    const refused = [`${FILES}ns/../b`, `${FILES}ns//../b`, ...SENT_AS_ANOTHER]
    for (const target of ['/health', `${FILES}ns/b`, ...refused])
      expect((await handedOn(target))[1]).toBe('127.0.0.1')
  })
})

/** Clients resolve an address before they send it. */
async function rawGet(port: number, target: string) {
  const text = Promise.withResolvers<string>()
  let got = ''
  await Bun.connect({
    hostname: '127.0.0.1',
    port,
    socket: {
      open: (socket) =>
        void socket.write(`GET ${target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n`),
      data(_, chunk) {
        got += chunk.toString()
      },
      close: () => text.resolve(got),
      error: (_, error) => text.reject(error),
    },
  })
  const [, body = ''] = (await text.promise).split('\r\n\r\n')
  return { body }
}
