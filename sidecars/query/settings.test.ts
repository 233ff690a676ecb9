import { describe, expect, test } from 'bun:test'
import { SettingsError } from '../core/settings.ts'
import { TEST_TOKEN } from '../rpc/testing.ts'
import { parseSettings } from './settings.ts'

const NEEDED = { SCRATCH_DIR: '/scratch', SIDECAR_TOKEN: TEST_TOKEN }
const GIB = 1_073_741_824
const machine = { cores: 4, memoryBytes: 8 * GIB }

test('without settings an engine gets a share of the machine', () => {
  expect(parseSettings(NEEDED, machine)).toEqual({
    host: '127.0.0.1',
    port: 8082,
    grpcPort: 0,
    token: TEST_TOKEN,
    otherHosts: [],
    apiUrls: ['http://127.0.0.1:8080'],
    scratchDir: '/scratch',
    objectCache: { directory: '/scratch/objects', maxBytes: 4 * GIB },
    lakeDir: null,
    concurrency: 4,
    engine: { memoryLimitBytes: GIB / 2, tempLimitBytes: 4 * GIB, threads: 4 },
    logFormat: 'text',
    tracing: null,
    sandbox: 'auto',
  })
})

test('one error lists every invalid setting', () => {
  const env = { PORT: '70000', QUERY_CONCURRENCY: '0', QUERY_THREADS: 'many', QUERY_MEMORY_LIMIT: '1' }
  expect(() => parseSettings(env, machine)).toThrow(SettingsError)
  for (const name of [...Object.keys(env), 'SCRATCH_DIR', 'SIDECAR_TOKEN'])
    expect(() => parseSettings(env, machine)).toThrow(name)
})

test('native gRPC has its own port or is off', () => {
  const grpcPortOf = (value: string) => parseSettings({ ...NEEDED, QUERY_GRPC_PORT: value }, machine).grpcPort
  expect([grpcPortOf('50051'), grpcPortOf('none'), grpcPortOf('')]).toEqual([50051, null, 0])
  expect(() => grpcPortOf('65536')).toThrow('QUERY_GRPC_PORT must be a whole number from 0 to 65535')
})

describe('callers and addresses of a sidecar', () => {
  test.each(['', 'short', `${TEST_TOKEN} with spaces`])('the token %p is refused and not shown', (token) => {
    const parse = () => parseSettings({ ...NEEDED, SIDECAR_TOKEN: token }, machine)
    expect(parse).toThrow(/SIDECAR_TOKEN must be 32 to 1024 printable characters/)
    if (token !== '') expect(parse).not.toThrow(token)
  })

  test('further hosts must be names or addresses without ports', () => {
    const hostsOf = (value: string) => parseSettings({ ...NEEDED, SIDECAR_HOSTS: value }, machine).otherHosts
    expect(hostsOf('query-1.internal, 10.0.0.5,fd00::1,[fd00::2]')).toEqual([
      'query-1.internal',
      '10.0.0.5',
      'fd00::1',
      '[fd00::2]',
    ])
    for (const value of ['query:8082', 'http://query', '*', 'a b'])
      expect(() => hostsOf(value)).toThrow('SIDECAR_HOSTS must be names or addresses without ports')
  })

  test('the API may have several addresses', () => {
    const apisOf = (value: string) => parseSettings({ ...NEEDED, API_URLS: value }, machine).apiUrls
    expect(apisOf('http://api-1:8080, https://sluice.example/base')).toEqual([
      'http://api-1:8080',
      'https://sluice.example/base',
    ])
    for (const value of ['api-1:8080', 'ftp://api', 'http://api?x=1', ','])
      expect(() => apisOf(value)).toThrow('API_URLS must be http or https addresses')
  })
})
