import { describe, expect, test } from 'bun:test'
import { writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { testLicense } from '../auth/testing.ts'
import { ConfigError, parseConfig } from './config.ts'

const parse = (env: Record<string, string>) =>
  parseConfig({ DATABASE_URL: 'postgres://u@h/d', ...env }, '/srv')
function problems(env: Record<string, string>) {
  try {
    parse(env)
    return []
  } catch (error) {
    if (error instanceof ConfigError) return error.problems
    throw error
  }
}
const CLAIMS = { type: 'team', expires_at: '2999-01-01T00:00:00Z', max_users: 5 }
const licensed = (claims: object = CLAIMS, header?: object) => {
  const { license, publicKey } = testLicense(claims, header)
  return {
    EDITION: 'pro',
    LICENSE: license,
    LICENSE_PUBLIC_KEY: publicKey,
    PLATFORM_API_KEY: 'a-key-of-16-letters',
  }
}

describe('HOST', () => {
  test('a HOST beyond loopback needs a key or ALLOW_OPEN', () => {
    for (const HOST of ['0.0.0.0', '::', '192.168.1.5', '127.evil.test', 'example.org']) {
      expect([HOST, problems({ HOST })]).toEqual([HOST, [expect.stringContaining('PLATFORM_API_KEY')]])
      expect(parse({ HOST, PLATFORM_API_KEY: '0123456789abcdef' }).isOpenToNetwork).toBe(false)
      expect(parse({ HOST, PLATFORM_API_KEYS: 'ci:0123456789abcdef' }).isOpenToNetwork).toBe(false)
      expect(parse({ HOST, ALLOW_OPEN: 'true' }).isOpenToNetwork).toBe(true)
      expect(problems({ HOST, ALLOW_OPEN: 'yes' })).toHaveLength(1)
      expect(problems({ HOST, PLATFORM_API_KEY: ' ' })).toHaveLength(1)
    }
    for (const HOST of ['127.0.0.1', '127.1.2.3', '::1', 'localhost'])
      expect([HOST, parse({ HOST }).isOpenToNetwork]).toEqual([HOST, false])
  })
})

describe('object store', () => {
  const keys = { S3_ACCESS_KEY_ID: 'id', S3_SECRET_ACCESS_KEY: 'secret' }
  const storeOf = (env: Record<string, string>) => parse(env).store
  test('is on disk without a bucket', () => {
    expect(storeOf(keys).kind).toBe('disk')
  })
  test('a bucket selects S3, with or without endpoint and keys', () => {
    const S3_BUCKET = 'b'
    const ofAws = { kind: 's3', endpoint: null, bucket: 'b', region: 'us-east-1', credentials: null } as const
    expect(storeOf({ S3_BUCKET })).toEqual(ofAws)
    expect(storeOf({ S3_BUCKET, AWS_REGION: 'eu-west-1' })).toEqual({ ...ofAws, region: 'eu-west-1' })
    const credentials = { accessKeyId: 'id', secretAccessKey: 'secret' }
    expect(storeOf({ S3_BUCKET, S3_ENDPOINT: 'http://s3', ...keys })).toEqual({
      ...ofAws,
      endpoint: 'http://s3',
      credentials,
    })
    expect(storeOf({ S3_BUCKET, ...keys, S3_SESSION_TOKEN: 't' })).toEqual({
      ...ofAws,
      credentials: { ...credentials, sessionToken: 't' },
    })
  })
  test('locations name the bucket, and sluice on disk', () => {
    expect(parse({}).lakeRoot).toBe('s3://sluice/')
    expect(parse({ S3_BUCKET: 'b' }).lakeRoot).toBe('s3://b/')
  })
  test('half of its settings is a problem that names the missing ones', () => {
    const S3_BUCKET = 'b'
    for (const [env, name] of [
      [{ S3_ENDPOINT: 'http://s3' }, 'S3_BUCKET'],
      [{ S3_BUCKET, S3_ACCESS_KEY_ID: 'id' }, 'S3_SECRET_ACCESS_KEY'],
      [{ S3_BUCKET, S3_SECRET_ACCESS_KEY: 'secret' }, 'S3_ACCESS_KEY_ID'],
      [{ S3_BUCKET, S3_SESSION_TOKEN: 't' }, 'S3_SESSION_TOKEN'],
    ] as const)
      expect(problems(env).map((problem) => problem.split(':')[0])).toEqual([name])
  })
})

test('SIDECAR_TOKEN is optional; a short token is refused without being shown', () => {
  expect(parse({}).sidecarToken).toBeNull()
  const token = '0123456789abcdef0123456789abcdef'
  expect(parse({ SIDECAR_TOKEN: token }).sidecarToken).toBe(token)
  const [problem, ...more] = problems({ SIDECAR_TOKEN: 'a-short-one' })
  expect(problem).toStartWith('SIDECAR_TOKEN: must be 32 to 1024 printable characters')
  expect([problem?.includes('a-short-one'), more]).toEqual([false, []])
})

test('branches expire by idleness only if BRANCH_MAX_IDLE_DAYS is set', () => {
  expect(parse({}).branchMaxIdleDays).toBeNull()
  expect(parse({ BRANCH_MAX_IDLE_DAYS: '90' }).branchMaxIdleDays).toBe(90)
  expect(problems({ BRANCH_MAX_IDLE_DAYS: '0' })).toHaveLength(1)
})

test('one client holds a tenth of the log streams by default', () => {
  expect(parse({}).streamsPerClient).toBe(1_000)
  expect(parse({ SSE_STREAMS: '40' }).streamsPerClient).toBe(4)
  expect(parse({ SSE_STREAMS: '40', SSE_STREAMS_PER_CLIENT: '9' }).streamsPerClient).toBe(9)
})

describe('API keys', () => {
  test('reads one unnamed key and any number of named keys', () => {
    expect(
      parse({ PLATFORM_API_KEY: 'k', PLATFORM_API_KEYS: 'ci:0123456789abcdef, ops:a:b:0123456789abc,' })
        .apiKeys,
    ).toEqual([
      { name: 'default', key: 'k' },
      { name: 'ci', key: '0123456789abcdef' },
      { name: 'ops', key: 'a:b:0123456789abc' },
    ])
  })
  test('refuses a short PLATFORM_API_KEY beyond loopback and flags it on loopback', () => {
    for (const HOST of ['0.0.0.0', '192.168.1.10', 'sluice.example.com'])
      for (const PLATFORM_API_KEY of ['k', '0123456789abcde'])
        expect(problems({ HOST, PLATFORM_API_KEY })).toEqual([
          `PLATFORM_API_KEY: has fewer than 16 characters, and HOST ${HOST} is not loopback: set a longer key`,
        ])
    expect(parse({ PLATFORM_API_KEY: '0123456789abcde' }).isWeakKey).toBe(true)
    expect(parse({ PLATFORM_API_KEY: '0123456789abcdef' }).isWeakKey).toBe(false)
  })

  test('refuses badly named, short and duplicate keys without showing them', () => {
    for (const keys of ['0123456789abcdef', 'a b:0123456789abcdef', 'ci:short-secret', ':0123456789abcdef']) {
      const [problem = '', ...more] = problems({ PLATFORM_API_KEYS: keys })
      expect([
        keys,
        more.length,
        problem.includes('0123456789abcdef'),
        problem.includes('short-secret'),
      ]).toEqual([keys, 0, false, false])
    }
    expect(problems({ PLATFORM_API_KEYS: 'ci:0123456789abcdef,ci:fedcba9876543210' })).toEqual([
      "PLATFORM_API_KEYS: the key name 'ci' is used twice",
    ])
  })
})

describe('hosts and origins', () => {
  test('an open service accepts loopback names, its own addresses and ALLOWED_HOSTS', () => {
    expect(parse({}).allowedHosts).toEqual(['localhost', '127.0.0.1', '[::1]'])
    expect(
      parse({
        HOST: 'fd00::1',
        ALLOW_OPEN: 'true',
        PUBLIC_URL: 'https://Sluice.example.com:8443/base',
        ALLOWED_HOSTS: ' Other.example.com:80, 10.0.0.7 ,,localhost',
      }).allowedHosts,
    ).toEqual([
      'localhost',
      '127.0.0.1',
      '[::1]',
      '[fd00::1]',
      'sluice.example.com',
      'other.example.com',
      '10.0.0.7',
    ])
    expect(problems({ ALLOWED_HOSTS: 'http://a.example.com' })).toEqual([
      "ALLOWED_HOSTS: 'http://a.example.com' is neither * nor a host name such as sluice.example.com",
    ])
  })
  test('a service with a key or ALLOWED_HOSTS=* accepts every host name', () => {
    expect(parse({ PLATFORM_API_KEY: 'a-key-0123456789' }).allowedHosts).toBeNull()
    expect(parse(licensed()).allowedHosts).toBeNull()
    expect(parse({ ALLOWED_HOSTS: '*' }).allowedHosts).toBeNull()
  })
  test('allows only the origins in CORS_ORIGINS', () => {
    expect(parse({}).corsOrigins).toEqual([])
    expect(parse({ CORS_ORIGINS: 'https://App.example.com/, http://localhost:3000' }).corsOrigins).toEqual([
      'https://app.example.com',
      'http://localhost:3000',
    ])
    expect(parse({ CORS_ORIGINS: '*' }).corsOrigins).toEqual(['*'])
    for (const wrong of ['localhost:3000', 'https://a.example.com/path', 'https://*.example.com'])
      expect(problems({ CORS_ORIGINS: wrong })).toEqual([
        `CORS_ORIGINS: '${wrong}' is neither * nor an origin such as https://app.example.com`,
      ])
  })
})

describe('limits', () => {
  test('STOP_DELAY is a number of seconds, or off', () => {
    expect(parse({}).stopDelayMs).toBe(0)
    expect(parse({ STOP_DELAY: 'off' }).stopDelayMs).toBe(0)
    expect(parse({ STOP_DELAY: '5' }).stopDelayMs).toBe(5_000)
    for (const wrong of ['0', '61', 'soon'])
      expect(problems({ STOP_DELAY: wrong })).toEqual([`STOP_DELAY: '${wrong}' is not a number from 1 to 60`])
  })

  test('DATABASE_TIMEOUT is a number of seconds', () => {
    expect(parse({}).databaseTimeoutMs).toBe(10_000)
    expect(parse({ DATABASE_TIMEOUT: '3' }).databaseTimeoutMs).toBe(3_000)
    expect(parse({ DATABASE_TIMEOUT: '3600' }).databaseTimeoutMs).toBe(3_600_000)
    for (const wrong of ['0', '-1', '1.5', 'off', '3601', '9999999'])
      expect(problems({ DATABASE_TIMEOUT: wrong })).toEqual([
        `DATABASE_TIMEOUT: '${wrong}' is not a number from 1 to 3600`,
      ])
  })

  test.each([
    '?statement_timeout=20000',
    '?sslmode=require&Statement_Timeout=20000',
    '?options=-c%20statement%5Ftimeout%3D20000',
  ])('refuses a DATABASE_URL that sets the statement timeout with %s', (query) => {
    for (const DATABASE_URL of ['postgres://u@one/d', 'postgres://u@one:1,two:2/d'])
      expect(problems({ DATABASE_URL: `${DATABASE_URL}${query}` })).toEqual([
        'DATABASE_URL: must not set statement_timeout: use DATABASE_TIMEOUT, in seconds',
      ])
  })

  test('accepts statement_timeout as user and database name in DATABASE_URL', () => {
    const DATABASE_URL = 'postgres://statement_timeout@one/statement_timeout?sslmode=require'
    expect(parse({ DATABASE_URL }).databaseUrl).toBe(DATABASE_URL)
  })

  test('the rate limit defaults to off only on community loopback installations', () => {
    expect(parse({}).rateLimit).toBeNull()
    expect(parse({ HOST: '0.0.0.0', PLATFORM_API_KEY: '0123456789abcdef' }).rateLimit).toEqual({
      perSecond: 50,
      burst: 100,
    })
    expect(parse(licensed()).rateLimit).toEqual({ perSecond: 50, burst: 100 })
    expect(parse({ RATE_LIMIT: '7' }).rateLimit).toEqual({ perSecond: 7, burst: 14 })
    expect(parse({ RATE_LIMIT: '7', RATE_BURST: '8' }).rateLimit).toEqual({ perSecond: 7, burst: 8 })
    expect(parse({ ...licensed(), RATE_LIMIT: 'off' }).rateLimit).toBeNull()
    expect(parse({}).authFailures).toBe(60)
    expect(parse({ AUTH_FAILURES: 'off' }).authFailures).toBeNull()
    for (const wrong of ['-1', '1.5', 'many', '0']) expect(problems({ RATE_LIMIT: wrong })).toHaveLength(1)
  })
})

describe('the Pro edition', () => {
  test('the Pro edition reads its licence from a variable or a file', () => {
    const license = { type: 'team', expiresAt: '2999-01-01T00:00:00Z', maxUsers: 5 }
    expect(parse(licensed())).toMatchObject({ edition: 'pro', license })
    const { LICENSE, ...more } = licensed()
    const LICENSE_FILE = join(tmpdir(), `sluice-license-${process.pid}`)
    writeFileSync(LICENSE_FILE, `${LICENSE}\n`)
    expect(parse({ ...more, LICENSE_FILE })).toMatchObject({ edition: 'pro', license })
  })
  test('the Pro edition refuses a missing, expired or invalid licence', () => {
    const { LICENSE, ...bare } = licensed()
    const [header, , signature] = LICENSE.split('.')
    const changed = Buffer.from(JSON.stringify({ ...CLAIMS, max_users: 500 })).toString('base64url')
    for (const [env, why] of [
      [bare, 'EDITION: pro requires a licence: set LICENSE or LICENSE_FILE'],
      [{ ...bare, LICENSE_FILE: '/nowhere/at/all' }, 'LICENSE_FILE: /nowhere/at/all cannot be read'],
      [
        licensed({ ...CLAIMS, expires_at: '2020-01-01T00:00:00Z' }),
        'LICENSE: expired on 2020-01-01T00:00:00Z',
      ],
      [
        { ...licensed(), LICENSE },
        'LICENSE: has an invalid signature: it was signed with another key, or was changed',
      ],
      [
        { ...licensed(), LICENSE_PUBLIC_KEY: '' },
        'LICENSE: has an invalid signature: it was signed with another key, or was changed',
      ],
      [
        { ...licensed(), LICENSE_PUBLIC_KEY: 'x' },
        'LICENSE: cannot be verified: LICENSE_PUBLIC_KEY is not an Ed25519 key',
      ],
      [
        { ...bare, LICENSE: `${header}.${changed}.${signature}` },
        'LICENSE: has an invalid signature: it was signed with another key, or was changed',
      ],
      [
        { ...bare, LICENSE: 'x' },
        'LICENSE: is not a signed licence (a compact JWS of at most 8192 characters)',
      ],
      [
        { ...bare, LICENSE: `${header}.${changed}.` },
        'LICENSE: is not a signed licence (a compact JWS of at most 8192 characters)',
      ],
      [licensed(CLAIMS, { alg: 'none' }), 'LICENSE: is not signed with EdDSA'],
      [licensed({ ...CLAIMS, max_users: 0 }), 'LICENSE: has no valid max_users'],
      [licensed({ ...CLAIMS, expires_at: 5 }), 'LICENSE: has no valid expires_at'],
      [licensed({ ...CLAIMS, type: '' }), 'LICENSE: has no type'],
    ] as [Record<string, string>, string][])
      expect(problems(env)).toEqual([why])
  })
  test('the Pro edition requires credentials; the community edition refuses users', () => {
    const { PLATFORM_API_KEY, ...nobody } = licensed()
    expect(problems(nobody)).toEqual([expect.stringContaining('EDITION: pro requires credentials')])
    const oidc = { OIDC_ISSUER: 'https://id.test', OIDC_AUDIENCE: 'sluice' }
    expect(parse({ ...nobody, ...oidc, PRO_ADMINS: 'ada, ,bob' }).oidc).toEqual({
      issuer: 'https://id.test',
      audience: 'sluice',
      clockSkewSeconds: 30,
      rolesClaim: 'roles',
      admins: ['ada', 'bob'],
    })
    expect(problems(oidc)).toEqual([expect.stringContaining('set EDITION=pro')])
    expect(problems({ EDITION: 'enterprise' })).toEqual([
      expect.stringContaining("'enterprise' is not an edition"),
    ])
  })
  test('trusts an OIDC issuer only over https or on loopback', () => {
    const withIssuer = (issuer: string) =>
      problems({ ...licensed(), OIDC_ISSUER: issuer, OIDC_AUDIENCE: 'x' })
    for (const issuer of [
      'https://id.test',
      'https://id.test/realms/a',
      'http://127.0.0.1:9000',
      'http://[::1]:9',
      'http://localhost',
    ])
      expect([issuer, withIssuer(issuer)]).toEqual([issuer, []])
    for (const issuer of [
      'http://id.test',
      'http://127.0.0.1.evil.test',
      'http://127.evil.test',
      'ftp://localhost',
      'https://u:p@id.test',
      'id.test',
      'file:///etc/passwd',
    ])
      expect([issuer, withIssuer(issuer).length]).toEqual([issuer, 1])
    expect(problems({ ...licensed(), OIDC_ISSUER: 'https://id.test' })).toEqual([
      expect.stringContaining('OIDC_AUDIENCE'),
    ])
    for (const skew of ['-1', '301', '1.5', 'x'])
      expect(
        problems({
          ...licensed(),
          OIDC_ISSUER: 'https://id.test',
          OIDC_AUDIENCE: 'x',
          OIDC_CLOCK_SKEW_SECONDS: skew,
        }),
      ).toHaveLength(1)
  })
})

describe('plugins', () => {
  const PLUGIN_TOKEN = 'known-to-us-and-to-them'
  const withPlugins = (env: Record<string, string>) => ({ ...licensed(), PLUGIN_TOKEN, ...env })
  const url = 'https://plugins.test/sluice'
  test('reads the addresses, token and administrators of plugins', () => {
    const env = {
      AUTH_PLUGIN_URL: `${url}/`,
      SHARING_PLUGIN_URL: 'grpcs://plugins.test',
      ENFORCEMENT_PLUGIN_URL: 'grpc://127.0.0.1:9',
    }
    expect(parse({ ...withPlugins(env), PRO_ADMINS: 'ada' }).plugins).toEqual({
      auth: url,
      sharing: 'grpcs://plugins.test',
      enforcement: 'grpc://127.0.0.1:9',
      token: PLUGIN_TOKEN,
      admins: ['ada'],
    })
    const { PLATFORM_API_KEY, ...nobody } = withPlugins({ AUTH_PLUGIN_URL: url })
    expect(problems(nobody)).toEqual([])
  })
  test('plugins require the Pro edition, a token and no conflicting settings', () => {
    expect(problems({ AUTH_PLUGIN_URL: url, PLUGIN_TOKEN })).toEqual([
      expect.stringContaining('AUTH_PLUGIN_URL: plugins require the Pro edition'),
    ])
    for (const token of ['', 'short', 'with a space in it', 'tøken-of-sixteen-and-more'])
      expect(problems(withPlugins({ ENFORCEMENT_PLUGIN_URL: url, PLUGIN_TOKEN: token }))).toEqual([
        expect.stringMatching(/^PLUGIN_TOKEN: is required(?!.*short)/),
      ])
    const oidc = { OIDC_ISSUER: 'https://id.test', OIDC_AUDIENCE: 'sluice' }
    expect(problems(withPlugins({ AUTH_PLUGIN_URL: url, ...oidc }))).toEqual([
      expect.stringContaining('set only one'),
    ])
    expect(problems(withPlugins({ SHARING_PLUGIN_URL: url }))).toEqual([
      expect.stringContaining('requires ENFORCEMENT_PLUGIN_URL'),
    ])
  })
  test('plugin addresses must be encrypted or local, and errors hide them', () => {
    const env = (AUTH_PLUGIN_URL: string) => withPlugins({ AUTH_PLUGIN_URL })
    for (const plain of ['http://plugins.test', 'grpc://10.0.0.7:90', 'http://127.0.0.1.evil.test']) {
      expect([plain, problems(env(plain)).length]).toEqual([plain, 1])
      expect([plain, problems({ ...env(plain), ALLOW_PLAIN_PLUGINS: 'true' })]).toEqual([plain, []])
    }
    for (const wrong of [
      'plugins.test',
      'ftp://plugins.test',
      'https://u:canary@plugins.test',
      `${url}?q=canary`,
    ]) {
      const [problem, ...more] = problems({ ...env(wrong), ALLOW_PLAIN_PLUGINS: 'true' })
      expect([wrong, more, problem?.includes('canary')]).toEqual([wrong, [], false])
    }
  })
})
