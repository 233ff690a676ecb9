import { afterAll, beforeAll, expect, spyOn, test } from 'bun:test'
import { api } from './client.ts'
import { path } from './request.ts'

const sent: string[] = []
const fetching = spyOn(globalThis, 'fetch')

beforeAll(() => {
  Object.assign(globalThis, { sessionStorage: { getItem: () => null } })
  fetching.mockImplementation((async (input: RequestInfo | URL, { method }: RequestInit = {}) => {
    sent.push(`${method} ${new URL(String(input)).href.split('/api/v1').at(-1)}`)
    return Response.json({})
  }) as typeof fetch)
})
afterAll(() => {
  fetching.mockRestore()
  Reflect.deleteProperty(globalThis, 'sessionStorage')
})

test('each path parameter of a request is one segment of its address', async () => {
  await api
    .branches({ branch: 'fix/a b?' })
    .diff({ ns: 'x' })({ layer: 'gold' })({ name: '#1' })
    .get({ query: {} })
  await api.tags({ name: 'a/b' }).delete()
  await api.tags.post({ name: 'a/b' })
  await api.pipelines.get({ query: { search: 'a/b' } })
  expect(sent).toEqual([
    'GET /branches/fix%2Fa%20b%3F/diff/x/gold/%231',
    'DELETE /tags/a%2Fb',
    'POST /tags',
    'GET /pipelines?search=a%2Fb',
  ])
})

test('each value of a path is one segment', () => {
  expect(path`landing-zones/${'a'}/${'b/c d'}/files`).toBe('landing-zones/a/b%2Fc%20d/files')
})
