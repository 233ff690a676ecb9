import { expect, test } from 'bun:test'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Elysia } from 'elysia'
import { testApp } from '../composition/test-app.ts'
import { UNLIMITED } from '../core/access.ts'
import { documentedPath } from '../wire/route-table.ts'
import { RULES } from './rules.ts'
import type { Resources } from './service.ts'

interface Document {
  paths: Record<string, Record<string, { security?: object[] }>>
}

/** Every API route that accepts credentials of this service. */
async function documented(): Promise<string[]> {
  const text = await readFile(join(import.meta.dirname, '../../docs/openapi.json'), 'utf8')
  const { paths }: Document = JSON.parse(text)
  return Object.entries(paths).flatMap(([path, operations]) =>
    Object.entries(operations).flatMap(([method, { security }]) =>
      security === undefined ? [`${method.toUpperCase()} ${path}`] : [],
    ),
  )
}

test('every API route has a rule, and every rule has a route', async () => {
  const ofApi = Object.keys(RULES).filter((key) => key.includes(' /api/v1/'))
  const ruled = ofApi.map((key) => {
    const [method, pattern = ''] = key.split(' ')
    return `${method} ${documentedPath(pattern)}`
  })
  expect(ruled.sort()).toEqual((await documented()).sort())
})

test('only three routes with a method other than GET are open', async () => {
  const open = Object.entries(RULES).flatMap(([key, { summary }]) =>
    !key.startsWith('GET ') && summary.startsWith('any authenticated caller') ? [key] : [],
  )
  expect(open.sort()).toEqual([
    'POST /api/v1/namespaces',
    'POST /api/v1/query',
    'POST /iceberg/v1/:prefix/namespaces',
  ])
})

const resources = {} as Resources
const enforcement = { check: async () => false, listVisible: UNLIMITED.visible }

test('the Pro edition does not start when a route has no rule', () => {
  const api = [new Elysia().get('/forgotten', () => 'secret')]
  const build = () =>
    testApp({ api, config: { edition: 'pro', apiKey: 'key' }, ownership: { resources, enforcement } })
  expect(build).toThrow('route GET /api/v1/forgotten has no access rule')
})

test('the Pro edition does not start without ownership', () => {
  expect(() => testApp({ config: { edition: 'pro', apiKey: 'key' } })).toThrow(/ownership/)
})
