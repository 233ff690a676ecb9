// Specification: Namespaces.
import { expect, test } from '@playwright/test'
import { fresh, getJson, uuid } from '../kit/resources.ts'

const path = '/api/v1/namespaces'

test('a namespace is created, listed, described and deleted', {
  tag: [
    '@name.namespace.default',
    '@namespaces.list',
    '@namespaces.get',
    '@namespaces.create',
    '@namespaces.update',
    '@namespaces.update.404',
  ],
}, async ({ request }) => {
  const name = fresh('life')
  const created = await request.post(path, { data: { name, description: 'One' } })
  expect(created.status()).toBe(201)
  const namespace = await created.json()
  expect(namespace).toEqual({
    id: uuid,
    name,
    owner: null,
    description: 'One',
    created_at: expect.stringMatching(/^\d{4}-.*Z$/),
    protection: { review: 'none' },
  })

  const described = await request.put(`${path}/${name}`, { data: { description: 'Two' } })
  expect([described.status(), await described.text()]).toEqual([204, ''])

  const { namespaces, total } = await getJson(request, path)
  expect(namespaces).toContainEqual({ ...namespace, description: 'Two' })
  expect(total).toBeGreaterThanOrEqual(2)
  expect(await getJson(request, `${path}/${name}`)).toEqual({ ...namespace, description: 'Two' })

  expect((await request.delete(`${path}/${name}`)).status()).toBe(204)
  expect((await request.delete(`${path}/${name}`)).status()).toBe(404)
  expect((await request.put(`${path}/${name}`, { data: { description: '' } })).status()).toBe(404)
  expect((await request.get(`${path}/${name}`)).status()).toBe(404)
})

test('a taken namespace name is 409 ALREADY_EXISTS @namespaces.create.409', async ({ request }) => {
  const response = await request.post(path, { data: { name: 'default' } })
  expect(response.status()).toBe(409)
  expect((await response.json()).error).toMatchObject({ code: 'ALREADY_EXISTS', type: 'CONFLICT' })
})

test('the namespace default cannot be deleted @namespaces.delete.403', async ({ request }) => {
  const response = await request.delete(`${path}/default`)
  expect(response.status()).toBe(403)
  expect((await response.json()).error).toMatchObject({ code: 'AUTHORIZATION', type: 'AUTHORIZATION' })
})

test('an invalid namespace name is 400 naming the field @name.namespace @namespaces.create.400 @limit.namespace', async ({
  request,
}) => {
  for (const name of ['abc', 'a1-', `z${'a-1'.repeat(21)}`.slice(0, 63)]) {
    await request.delete(`${path}/${name}`)
    expect([name, (await request.post(path, { data: { name } })).status()]).toEqual([name, 201])
    expect((await request.delete(`${path}/${name}`)).status()).toBe(204)
  }
  for (const name of ['ab', 'Upper', '1st', '-dash', 'under_score', 'a'.repeat(64), '']) {
    const response = await request.post(path, { data: { name } })
    expect([name, response.status()]).toEqual([name, 400])
    expect((await response.json()).error.message).toMatch(/^name: /)
  }
})

test('the contents of a deleted namespace remain and keep working @namespaces.delete', async ({
  request,
}) => {
  const namespace = fresh('left')
  const pipeline = { namespace, layer: 'bronze', name: 'left-behind' }
  expect((await request.post(path, { data: { name: namespace } })).status()).toBe(201)
  expect((await request.post('/api/v1/pipelines', { data: pipeline })).status()).toBe(201)
  expect((await request.delete(`${path}/${namespace}`)).status()).toBe(204)
  expect((await request.get(`/api/v1/pipelines/${namespace}/bronze/left-behind`)).status()).toBe(200)
  const refused = await request.post('/api/v1/pipelines', { data: { ...pipeline, name: 'another' } })
  expect(refused.status()).toBe(400)
  expect((await refused.json()).error.message).toMatch(/^namespace: /)
})
