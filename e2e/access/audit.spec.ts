// Specification: Audit; Audit entry.
import { randomInt } from 'node:crypto'
import { expect, test } from '@playwright/test'
import { rawRequest } from '../kit/raw-request.ts'
import { auditOf, fresh, instant, uuid } from '../kit/resources.ts'

const hextet = () => randomInt(0x1000, 0x10000).toString(16)

test('the audit log records every write, including failures, and no read @namespaces.update.400 @namespaces.delete.404 @audit.writes', async ({
  request,
}) => {
  const name = fresh('audited')
  const own = `/api/v1/namespaces/${name}`
  expect((await request.post('/api/v1/namespaces', { data: { name } })).status()).toBe(201)
  expect((await request.put(`${own}?_note=secret`, { data: { description: 'x' } })).status()).toBe(204)
  expect((await request.put(own, { data: {} })).status()).toBe(400)
  expect((await request.delete(own)).status()).toBe(204)
  expect((await request.delete(own)).status()).toBe(404)
  expect((await request.post(own)).status()).toBe(405)
  expect((await request.post(`${own}/nowhere`)).status()).toBe(404)
  await request.get(own)
  await request.patch(own)
  const entries = await auditOf(request, (resource) => resource.startsWith(own))
  expect(entries.map(({ action, resource }) => `${action} ${resource}`)).toEqual([
    `post ${own}/nowhere`,
    `post ${own}`,
    `delete ${own}`,
    `delete ${own}`,
    `put ${own}`,
    `put ${own}`,
  ])
  expect(entries.map(({ status }) => status)).toEqual([404, 405, 404, 204, 400, 204])
  for (const { action, resource, status, ...rest } of entries)
    expect(rest).toEqual({
      id: uuid,
      user_id: '',
      detail: '',
      ip: '127.0.0.1',
      peer: '127.0.0.1',
      key: '',
      count: 1,
      created_at: instant,
    })
})

test('the audit log records the address that a local proxy forwards @audit.ip', async ({ request }) => {
  const address = `/api/v1/namespaces/${fresh('proxied')}`
  for (const forwarded of ['198.51.100.7', '10.0.0.1, 198.51.100.8', 'no address'])
    await request.delete(address, { headers: { 'X-Forwarded-For': forwarded } })
  const entries = await auditOf(request, (resource) => resource === address)
  expect(entries.map(({ ip }) => ip)).toEqual(['127.0.0.1', '198.51.100.8', '198.51.100.7'])
  // Anyone can claim an address in this header; `peer` is the address of the connection.
  for (const { peer } of entries) expect(peer).toBe('127.0.0.1')
})

test('the audit log records the sender of a path with dot segments @audit.ip.elsewhere', async ({
  request,
  baseURL,
}) => {
  const folder = `default/${fresh('elsewhere')}`
  const sender = `2001:db8::${hextet()}:${hextet()}:${hextet()}`
  const sent = [
    `PUT /api/v1/files/${folder}/../y`,
    `DELETE /api/v1/files/${folder}/a\\..\\y`,
    `DELETE /api/v1/files//${folder}/../y`,
    `PUT /api/v1/x/../files/${folder}/y`,
  ]
  for (const line of sent)
    await rawRequest(baseURL ?? '', [
      `${line} HTTP/1.1`,
      'Host: sluice.test',
      `X-Forwarded-For: ${sender}`,
      'Content-Length: 0',
    ])
  const entries = (await auditOf(request)).filter(({ ip }) => ip === sender)
  expect(entries.map(({ action }) => action)).toEqual(['put', 'delete', 'delete', 'put'])
})
