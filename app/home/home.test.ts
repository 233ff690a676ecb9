import { describe, expect, test } from 'bun:test'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { requestTo, testApp } from '../test-app.ts'
import { LINKS } from './routes.ts'

const BROWSER = 'text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8'
const app = testApp({ config: { apiKey: 'a-key-0123456789' } })
const get = (path: string, accept?: string, method = 'GET') =>
  requestTo(app, method, path, undefined, accept === undefined ? {} : { accept })

describe('the root address', () => {
  test('serves browsers a public page without external content', async () => {
    const page = await get('/', BROWSER)
    expect([page.status, page.headers.get('content-type')]).toEqual([200, 'text/html; charset=utf-8'])
    expect(page.headers.get('content-security-policy')).toStartWith("default-src 'self';")
    expect(page.headers.get('vary')).toContain('Accept')
    const html = await page.text()
    expect(html).not.toMatch(/https?:\/\/|<style|style="|<script| on\w+="/)
    const targets = [...html.matchAll(/(?:href|src)="([^"]+)"/g)].map(([, target = '']) => `/${target}`)
    for (const target of targets) expect([target, (await get(target)).status]).toEqual([target, 200])
    for (const link of Object.values(LINKS)) expect(targets).toContain(link)
    const css = await readFile(join(import.meta.dirname, 'page', 'home.css'), 'utf8')
    expect(css).not.toMatch(/url\(|@import/)
  })
  test('serves other clients JSON with the same links', async () => {
    for (const accept of [undefined, '*/*', 'application/json', 'text/html;q=0.1, application/json']) {
      const answer = await get('/', accept)
      expect([answer.status, answer.headers.get('content-type')]).toEqual([
        200,
        expect.stringMatching(/^application\/json/),
      ])
      expect(await answer.json()).toEqual({ service: 'sluice', links: LINKS })
    }
  })
  test('supports HEAD and refuses POST', async () => {
    expect((await get('/', BROWSER, 'HEAD')).headers.get('content-type')).toBe('text/html; charset=utf-8')
    expect((await get('/', '*/*', 'HEAD')).headers.get('content-type')).toStartWith('application/json')
    expect((await get('/', '*/*', 'POST')).status).toBe(401)
  })
})
