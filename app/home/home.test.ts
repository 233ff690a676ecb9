import { describe, expect, test } from 'bun:test'
import { requestTo, testApp } from '../composition/test-app.ts'
import { LINKS } from './routes.ts'

const BROWSER = 'text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8'
const app = testApp({ config: { apiKey: 'a-key-0123456789' } })
const get = (path: string, accept?: string, method = 'GET') =>
  requestTo(app, method, path, undefined, accept === undefined ? {} : { accept })

describe('the root address', () => {
  test('leads browsers to the console', async () => {
    const answer = await get('/', BROWSER)
    expect([answer.status, answer.headers.get('location')]).toEqual([302, 'console'])
    expect(answer.headers.get('vary')).toContain('Accept')
  })
  test('serves other clients JSON with the addresses of all parts', async () => {
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
    expect((await get('/', BROWSER, 'HEAD')).status).toBe(302)
    expect((await get('/', '*/*', 'HEAD')).headers.get('content-type')).toStartWith('application/json')
    expect((await get('/', '*/*', 'POST')).status).toBe(401)
  })
})
