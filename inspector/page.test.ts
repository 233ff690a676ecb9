import { describe, expect, test } from 'bun:test'
import { readdir, readFile } from 'node:fs/promises'
import { requestTo, testApp } from '../app/composition/test-app.ts'

const app = testApp({})
const files = (await readdir(import.meta.dirname)).filter((name) => /\.(js|css|html|svg)$/.test(name))

/** Addresses that a file requests. */
const addresses = (text: string) =>
  [...text.matchAll(/(?:src|href)="((?!#)[^"]+)"|from '\.\/([^']+)'/g)].map(
    ([, address, module]) => address ?? `inspector/${module}`,
  )

describe('the page', () => {
  test('is served with every file it names, under a strict policy', async () => {
    const page = await requestTo(app, 'GET', '/inspector')
    expect(page.headers.get('content-type')).toStartWith('text/html')
    expect(page.headers.get('content-security-policy')).toStartWith("default-src 'self';")
    expect(page.headers.get('content-security-policy')).not.toContain('unsafe')
    for (const name of files) {
      const source = await readFile(`${import.meta.dirname}/${name}`, 'utf8')
      for (const address of addresses(source)) {
        const response = await requestTo(app, 'GET', `/${address}`)
        expect([name, address, response.status]).toEqual([name, address, 200])
      }
    }
  })

  test('has no inline script or style, and no address elsewhere', async () => {
    for (const name of files) {
      const source = await readFile(`${import.meta.dirname}/${name}`, 'utf8')
      expect([name, source.replaceAll('http://www.w3.org/2000/svg', '')]).toEqual([
        name,
        expect.not.stringMatching(/https?:\/\/|\/\/cdn/),
      ])
      if (name === 'index.html') expect(source).not.toMatch(/<style|style="|<script>| on\w+="/)
    }
  })

  test('redirects from a final slash, and answers unchanged files with 304', async () => {
    const slash = await requestTo(app, 'GET', '/inspector/')
    expect([slash.status, slash.headers.get('location')]).toEqual([301, '../inspector'])
    const etag = (await requestTo(app, 'GET', '/inspector/chart.css')).headers.get('etag') ?? ''
    expect(
      (await requestTo(app, 'GET', '/inspector/chart.css', undefined, { 'if-none-match': etag })).status,
    ).toBe(304)
  })

  test('serves no other file', async () => {
    for (const name of ['routes.ts', 'page.test.ts', '..%2fservice.ts', 'constructor', 'index.html%00'])
      expect([400, 404]).toContain((await requestTo(app, 'GET', `/inspector/${name}`)).status)
  })
})
