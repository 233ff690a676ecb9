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

  test('a query, and addresses of other things, are no path', () => {
    for (const address of [`${FILES}a/b?x=/../y`, '/api/v1/pipelines/../files/a', '/health/..'])
      expect(unresolved(address)).toBe(address)
    expect(unresolved(`http://a${FILES}a/../b`)).not.toContain('/../')
  })
})

describe('a router that sees addresses as they were sent', () => {
  const server = Bun.serve({
    port: 0,
    routes: unresolvedRoutes((request) => new Response(new URL(request.url).pathname)),
    fetch: () => new Response('elsewhere'),
  })
  afterAll(() => server.stop(true))

  test('hands on what is a path, and nothing that it resolves to', async () => {
    const folder = `default/${'a/'.repeat(62)}`
    for (const [rest, isPath] of [
      ['default/a', true],
      [`${folder}a`, true],
      ['default/x/%2e%2e/a', false],
      ['default//%2e%2e/a', false],
      [`${folder}a/b/%2e%2e/%2e%2e`, false],
    ] as const) {
      const { body } = await rawGet(server.port ?? 0, FILES + rest)
      const read = () => filePath(decodeURIComponent(body.slice(FILES.length)))
      if (isPath) expect(read()).toBe(rest)
      else expect(read).toThrow(/^path: /)
    }
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
