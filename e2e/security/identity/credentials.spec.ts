// Attack class: guessed credentials. The limit of wrong credentials holds, whatever addresses a sender claims. Keys that can be
// guessed do not work where others reach the service.
import { stat } from 'node:fs/promises'
import { expect, test } from '@playwright/test'
import { startOwnService } from '../../kit/own-service.ts'

const KEY = 'a-key-of-the-credentials'
const OTHER_KEY = 'another-key-of-the-credentials'
const parts = { RUNNER_URLS: 'none', QUERY_URLS: 'none' }

test('changing forwarded addresses does not bypass the limit of wrong keys', async ({ request }) => {
  const service = await startOwnService({
    ...parts,
    PLATFORM_API_KEY: KEY,
    PLATFORM_API_KEYS: `other:${OTHER_KEY}`,
  })
  const statusOf = async (key: string, address: string) =>
    (
      await request.get(`${service.url}/api/v1/namespaces`, {
        headers: { 'x-api-key': key, 'x-forwarded-for': address },
      })
    ).status()
  try {
    expect(await statusOf(KEY, '203.0.113.1')).toBe(200)
    const answers: number[] = []
    for (let n = 0; n < 250; n++) answers.push(await statusOf(`guess-number-${n}`, `198.51.100.${n + 1}`))
    expect(answers.slice(0, 60).every((status) => status === 401)).toBe(true)
    // A connection may fail 120 times a minute, twice the limit of an address. Two tries return each second.
    expect(answers.filter((status) => status === 429).length).toBeGreaterThan(20)
    // Other clients behind the same proxy are accepted, also with a key that was not used before.
    expect(await statusOf(KEY, '203.0.113.2')).toBe(200)
    expect(await statusOf(OTHER_KEY, '203.0.113.3')).toBe(200)
  } finally {
    await service.stop()
  }
})

test('a short key prevents a public start and warns on loopback', async ({ request }) => {
  await expect(startOwnService({ ...parts, HOST: '0.0.0.0', PLATFORM_API_KEY: 'short-key' })).rejects.toThrow(
    /PLATFORM_API_KEY: has fewer than 16 characters/,
  )
  const service = await startOwnService({ ...parts, PLATFORM_API_KEY: 'short-key' })
  try {
    expect(service.log()).toContain('WARNING: PLATFORM_API_KEY has fewer than 16 characters')
    expect(service.log()).not.toContain('short-key')
    const headers = { 'x-api-key': 'short-key' }
    expect((await request.get(`${service.url}/api/v1/namespaces`, { headers })).status()).toBe(200)
    // The data directory is closed to other users of the machine too.
    expect((await stat(service.dataDir)).mode & 0o777).toBe(0o700)
  } finally {
    await service.stop()
  }
})
