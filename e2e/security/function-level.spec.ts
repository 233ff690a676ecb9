// Attack class: broken function-level authorization (OWASP API5). Functions of administrators are closed to others, however a
// request is disguised. The full table of routes and roles is in matrix.spec.ts.
import { expect, test } from '@playwright/test'
import { fresh } from '../resources.ts'
import { type Caller, type ProService, startProService } from './pro-service.ts'

let service: ProService
test.beforeAll(async () => {
  service = await startProService()
})
test.afterAll(async () => {
  await service?.stop()
})

const FOR_ADMINISTRATORS: readonly (readonly [string, string, object?])[] = [
  ['GET', '/api/v1/audit'],
  ['GET', '/api/v1/admin/retention/config'],
  ['PUT', '/api/v1/admin/retention/config', {}],
  ['GET', '/api/v1/admin/retention/status'],
  ['POST', '/api/v1/admin/retention/run'],
]

test('claims that only resemble the administrator role grant nothing', async () => {
  const pretenders = [
    { roles: ['Admin'] },
    { roles: ['administrator'] },
    { roles: [' admin'] },
    { roles: ['admin\u0000'] },
    { roles: { admin: true } },
    { role: 'admin' },
    { 'roles ': ['admin'] },
    { admin: true, is_admin: true, scope: 'admin', groups: ['admin'] },
    { name: 'root', preferred_username: 'root' },
  ]
  for (const claims of pretenders)
    for (const [method, path, body] of FOR_ADMINISTRATORS) {
      const { status } = await service.ask(service.user(fresh('user'), claims), method, path, body)
      expect([claims, path, [401, 403].includes(status)]).toEqual([claims, path, true])
    }
})

test('request headers grant no role, and HEAD is judged like GET', async () => {
  const user = service.user(fresh('user'))
  const headers: Caller[] = [
    { 'x-user': 'root' },
    { 'x-role': 'admin', 'x-roles': 'admin' },
    { 'x-forwarded-user': 'root', 'x-remote-user': 'root' },
    { 'x-original-url': '/api/v1/features', 'x-rewrite-url': '/api/v1/features' },
    { 'x-http-method-override': 'GET', 'x-method-override': 'GET' },
    { 'x-forwarded-for': '127.0.0.1' },
  ]
  for (const header of headers)
    for (const [method, path, body] of FOR_ADMINISTRATORS)
      expect([path, (await service.ask({ ...user, ...header }, method, path, body)).status]).toEqual([
        path,
        403,
      ])
  for (const [method, path] of FOR_ADMINISTRATORS.filter(([method]) => method === 'GET'))
    expect([method, (await service.ask(user, 'HEAD', path)).status]).toEqual([method, 403])
})

test('other spellings of an address do not bypass its rule', async () => {
  const user = service.user(fresh('user'))
  for (const path of [
    '/api/v1/audit/',
    '/api/v1//audit',
    '/api/v1/Audit',
    '/api/v1/audit;x=1',
    '/api/v1/%61udit',
  ])
    expect([path, [403, 404].includes((await service.ask(user, 'GET', path)).status)]).toEqual([path, true])
})

test('a refusal reveals nothing about the protected data', async () => {
  const { status, json } = await service.ask(service.user(fresh('user')), 'GET', '/api/v1/audit')
  expect([status, json]).toEqual([
    403,
    { error: { code: 'AUTHORIZATION', type: 'AUTHORIZATION', message: 'administrator role required' } },
  ])
})

test('administrators by role and by key can use their functions', async () => {
  for (const caller of [service.root, service.machine])
    for (const [method, path, body] of FOR_ADMINISTRATORS)
      expect([path, (await service.ask(caller, method, path, body)).status]).toEqual([
        path,
        method === 'POST' ? 202 : 200,
      ])
})

test('features tell every user that users and sharing exist', async () => {
  const { json } = await service.ask(service.user(fresh('user')), 'GET', '/api/v1/features')
  expect(json).toMatchObject({
    edition: 'pro',
    multi_user: true,
    plugins: { sharing: { enabled: true }, enforcement: { enabled: true } },
  })
})
