import { expect, test } from 'bun:test'
import { isSidecarToken } from '../../proto/sidecar-token.ts'
import { apiEnv, readSettings, sidecarEnv } from './settings.ts'

const user = {
  PATH: '/bin',
  LANG: 'C',
  DATABASE_URL: 'postgres://u:secret@db/x',
  S3_ENDPOINT: 'http://s3',
  S3_SECRET_ACCESS_KEY: 'secret',
  PLATFORM_API_KEY: 'secret',
  RUNNER_THREADS: '2',
  RUNNER_URLS: 'http://runner-1',
  ENGINE_MEMORY: '1GB',
  SANDBOX: 'required',
  AWS_SESSION_TOKEN: 'secret',
}

test('a sidecar gets no database address and no key', () => {
  const settings = readSettings(user, '/srv')
  const env = sidecarEnv(user, settings, { name: 'runner', port: 4711 })
  expect<Record<string, string | undefined>>(env).toEqual({
    PATH: '/bin',
    LANG: 'C',
    RUNNER_THREADS: '2',
    ENGINE_MEMORY: '1GB',
    SANDBOX: 'required',
    HOST: '127.0.0.1',
    PORT: '4711',
    SIDECAR_TOKEN: settings.sidecarToken,
    API_URLS: 'http://127.0.0.1:8080',
    DATA_DIR: '/srv/data',
    SCRATCH_DIR: '/srv/data/scratch/runner',
    OBJECT_CACHE_DIR: '/srv/data/scratch/objects',
  })
})

test("a sidecar gets the lake's directory unless an object store is set", () => {
  const env = sidecarEnv({}, readSettings({ DATA_DIR: '/data' }, '/srv'), { name: 'query', port: 4711 })
  expect(env).toMatchObject({ LAKE_DIR: '/data/objects', SCRATCH_DIR: '/data/scratch/query' })
  for (const name of ['S3_ENDPOINT', 'S3_BUCKET']) {
    const onS3 = sidecarEnv({}, readSettings({ [name]: 'x' }, '/srv'), { name: 'query', port: 4711 })
    expect(onS3).not.toHaveProperty('LAKE_DIR')
  }
})

test('API and sidecars share a configured token or a new one', () => {
  const tokensOf = (env: Record<string, string>) => {
    const settings = readSettings(env, '/srv')
    const chosen = { databaseUrl: '', runnerUrls: '', queryUrls: '', ownSidecars: ['http://127.0.0.1:1'] }
    return [
      new Map(Object.entries(apiEnv(env, settings, chosen))).get('SIDECAR_TOKEN'),
      ...['runner', 'query'].map((name) =>
        new Map(Object.entries(sidecarEnv(env, settings, { name, port: 1 }))).get('SIDECAR_TOKEN'),
      ),
    ]
  }
  const [one = '', ...others] = tokensOf({})
  expect(isSidecarToken(one)).toBe(true)
  expect(others).toEqual([one, one])
  expect(tokensOf({})).not.toContain(one)
  expect(tokensOf({ SIDECAR_TOKEN: 'as it is set' })).toEqual(Array(3).fill('as it is set'))
})

test('own sidecars get a generated token, all sidecars a configured one', () => {
  const sentBy = (env: Record<string, string>, ownSidecars: string[]) => {
    const settings = readSettings(env, '/srv')
    const chosen = { databaseUrl: '', runnerUrls: 'http://far:1', queryUrls: 'http://far:2', ownSidecars }
    const environment = new Map(Object.entries(apiEnv(env, settings, chosen)))
    return [environment.get('SIDECAR_TOKEN') === settings.sidecarToken, environment.get('SIDECAR_TOKEN_URLS')]
  }
  const own = ['http://127.0.0.1:1', 'http://127.0.0.1:2']
  expect(sentBy({}, own)).toEqual([true, own.join(',')])
  expect(sentBy({}, [])).toEqual([false, undefined])
  expect(sentBy({ SIDECAR_TOKEN: 'as it is set' }, own)).toEqual([true, undefined])
})

test('sidecars may call PUBLIC_URL and the replicas in API_URLS', () => {
  const urlsOf = (env: Record<string, string>) => readSettings(env, '/srv').apiUrls.join(',')
  expect(urlsOf({ HOST: '0.0.0.0', PORT: '81' })).toBe('http://127.0.0.1:81')
  expect(urlsOf({ PUBLIC_URL: 'https://a', API_URLS: 'https://b,https://c' })).toBe(
    'https://a,https://b,https://c',
  )
})

test('the API process gets all user settings and the chosen addresses', () => {
  const chosen = {
    databaseUrl: 'postgres://chosen',
    runnerUrls: 'http://r',
    queryUrls: 'none',
    ownSidecars: [],
  }
  expect(apiEnv({ ...user, HOST: '' }, readSettings(user, '/srv'), chosen)).toMatchObject({
    PLATFORM_API_KEY: 'secret',
    DATABASE_URL: 'postgres://chosen',
    RUNNER_URLS: 'http://r',
    QUERY_URLS: 'none',
    HOST: '127.0.0.1',
    PORT: '8080',
    LOCAL_URL: 'http://127.0.0.1:8080',
    DATA_DIR: '/srv/data',
  })
})

test('an API that listens on all addresses is reached over loopback', () => {
  expect(readSettings({ HOST: '0.0.0.0', PORT: '81' }, '/').localUrl).toBe('http://127.0.0.1:81')
  expect(readSettings({ HOST: '::1' }, '/').localUrl).toBe('http://[::1]:8080')
})
