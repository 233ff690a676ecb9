import { describe, expect, test } from 'bun:test'
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { brotliDecompressSync } from 'node:zlib'
import { requestTo, testApp } from '../composition/test-app.ts'

const app = testApp({ config: { apiKey: 'a-key-0123456789' } })
const get = (path: string, headers = {}) => requestTo(app, 'GET', path, undefined, headers)
const dist = join(import.meta.dirname, '..', '..', 'console', 'dist')

describe('the console', () => {
  test('serves its page without a credential at every address below', async () => {
    for (const path of ['/console', '/console/', '/console/runs', '/console/pipelines/default/gold/a']) {
      const page = await get(path)
      const html = await page.text()
      expect([page.status, page.headers.get('cache-control')]).toEqual([200, 'no-store'])
      const references = [...html.matchAll(/(?:href|src)="([^"]+)"/g)].map(([, target = '']) => target)
      expect(references.shift()).toStartWith('data:image/svg+xml;base64,')
      expect(references).toHaveLength(2)
      for (const reference of references) {
        const { pathname } = new URL(reference, `http://localhost${path}`)
        expect([path, pathname, (await get(pathname)).status]).toEqual([path, pathname, 200])
      }
    }
  })
  test('allows no inline script, and style elements only with the nonce of the response', async () => {
    const nonces = new Set<string>()
    for (let n = 0; n < 3; n++) {
      const page = await get('/console')
      const policy = page.headers.get('content-security-policy') ?? ''
      const html = await page.text()
      const [, nonce = ''] = /name="style-nonce" content="([^"]{20,})"/.exec(html) ?? []
      expect(policy).toStartWith("default-src 'self';")
      expect(policy).toContain(`style-src 'self' 'nonce-${nonce}'`)
      expect(policy).not.toMatch(/unsafe|script-src|https?:/)
      expect(html).not.toMatch(/<script(?! type="module" src=)|<style| on\w+="|style="/)
      nonces.add(nonce)
    }
    expect(nonces.size).toBe(3)
  })
  test('serves bundled files compressed and for good', async () => {
    const names = (await readdir(dist)).filter((name) => /\.(js|css)$/.test(name))
    expect(names.length).toBeGreaterThan(5)
    for (const name of names) {
      const plain = await get(`/console/assets/${name}`)
      const small = await get(`/console/assets/${name}`, { 'accept-encoding': 'gzip, br' })
      expect([name, plain.status, small.headers.get('content-encoding')]).toEqual([name, 200, 'br'])
      expect(small.headers.get('cache-control')).toContain('immutable')
      const unpacked = brotliDecompressSync(await small.arrayBuffer())
      expect(unpacked.equals(Buffer.from(await plain.arrayBuffer()))).toBe(true)
    }
  })
  test('redirects the former addresses of the inspector, relative to the path of a proxy', async () => {
    for (const path of ['/inspector', '/inspector/']) {
      const { status, headers } = await get(path)
      const { href } = new URL(headers.get('location') ?? '', `http://localhost/sluice${path}`)
      expect([path, status, href]).toEqual([path, 302, 'http://localhost/sluice/console/inspector'])
    }
  })
  test('serves no other file', async () => {
    for (const name of ['manifest.json', 'sources', '..%2fbuild.ts', 'main.js', 'x-abcdef12.js', '.js'])
      expect([name, (await get(`/console/assets/${name}`)).status]).toEqual([name, 404])
  })
})
