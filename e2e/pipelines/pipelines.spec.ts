// Specification: Pipelines; Pipeline version; Pipeline draft and publish.
import { expect, test } from '@playwright/test'
import { eventually } from '../kit/eventually.ts'
import {
  csv,
  ENDLESS,
  expectError,
  fresh,
  getJson,
  instant,
  newNamespace,
  newPipeline,
  pipelineWith,
  publish,
  uuid,
  writeFile,
} from '../kit/resources.ts'
import { getRun, requestRun } from '../kit/runs.ts'

const path = '/api/v1/pipelines'
const nobody = `${path}/default/bronze/nobody-here`

test('a pipeline is created, found, changed and deleted @pipelines.create @pipelines.get @pipelines.update @pipelines.delete', async ({
  request,
}) => {
  const name = fresh('life')
  const created = await request.post(path, {
    data: { namespace: 'default', layer: 'silver', name, description: 'First' },
  })
  expect(created.status()).toBe(201)
  const prefix = `default/pipelines/silver/${name}/`
  expect(await created.json()).toMatchObject({
    namespace: 'default',
    layer: 'silver',
    name,
    s3_path: prefix,
    files_created: [`${prefix}pipeline.sql`, `${prefix}config.yaml`],
  })

  const url = `${path}/default/silver/${name}`
  const found = await request.get(url)
  expect(found.status()).toBe(200)
  const pipeline = await found.json()
  expect(pipeline).toEqual({
    id: uuid,
    namespace: 'default',
    layer: 'silver',
    name,
    type: 'sql',
    owner: null,
    description: 'First',
    s3_path: prefix,
    draft_dirty: true,
    published_version: null,
    published_at: null,
    max_versions: 50,
    created_at: instant,
    updated_at: instant,
    tags: [],
    last_run: null,
  })

  const changed = await request.put(url, { data: { description: 'Second', type: 'python', owner: 'ann' } })
  expect(changed.status()).toBe(200)
  const after = await changed.json()
  expect(after).toEqual({
    ...pipeline,
    description: 'Second',
    type: 'python',
    owner: 'ann',
    updated_at: instant,
  })
  expect(Date.parse(after.updated_at)).toBeGreaterThanOrEqual(Date.parse(pipeline.updated_at))
  expect(await (await request.put(url, { data: {} })).json()).toEqual(after)

  const deleted = await request.delete(url)
  expect([deleted.status(), await deleted.text()]).toEqual([204, ''])
  await expectError(await request.get(url), 404)
  await expectError(await request.delete(url), 404)
  const files = await getJson(request, '/api/v1/files', { prefix })
  expect(files).toEqual({ files: [], total: 0 })
})

test('the name of a deleted pipeline can be reused at once', async ({ request }) => {
  const made = await newPipeline(request)
  await writeFile(request, `${made.prefix}tests/quality/old.sql`, 'select 0')
  await publish(request, made)
  const { id } = await getJson(request, made.url)
  expect((await request.delete(made.url)).status()).toBe(204)
  await newPipeline(request, { namespace: made.namespace, layer: made.layer, name: made.name })
  const again = await getJson(request, made.url)
  expect(again).toMatchObject({ published_version: null, draft_dirty: true })
  expect(again.id).not.toBe(id)
  const { files } = await getJson(request, '/api/v1/files', { prefix: made.prefix })
  expect(files.map((file: { path: string }) => file.path)).toEqual([
    `${made.prefix}config.yaml`,
    `${made.prefix}pipeline.sql`,
  ])
})

test('deleting a pipeline cancels its running and pending runs', async ({ request }) => {
  const pipeline = await pipelineWith(request, ENDLESS)
  const { url } = pipeline
  const [first, second] = [await requestRun(request, pipeline), await requestRun(request, pipeline)]
  const statusOf = async (id: string) => (await getRun(request, id)).status
  await eventually(() => statusOf(first)).toBe('running')
  expect(await getJson(request, url)).toMatchObject({
    last_run: { run_id: second, status: 'pending', finished_at: null },
  })
  expect((await request.delete(url)).status()).toBe(204)
  await eventually(() => statusOf(first)).toBe('cancelled')
  await eventually(() => statusOf(second)).toBe('cancelled')
})

test.describe('pipeline creation', () => {
  const fine = { namespace: 'default', layer: 'bronze', name: 'refused' }
  const wrong: [field: string, value: unknown][] = [
    ['namespace', undefined],
    ['namespace', 'Upper'],
    ['namespace', 'no-such-namespace'],
    ['namespace', 7],
    ['layer', undefined],
    ['layer', 'copper'],
    ['layer', null],
    ['name', undefined],
    ['name', ''],
    ['name', 'Upper'],
    ['name', '-dash'],
    ['name', 'with space'],
    ['name', '../up'],
    ['name', 'a'.repeat(129)],
    ['type', 'r'],
    ['type', null],
    ['description', 7],
    ['description', 'nul \u0000'],
    ['source', 'no such/name'],
    ['source', 'copper.orders'],
    ['source', 7],
    ['unique_key', 7],
    ['unique_key', 'x'.repeat(300)],
  ]
  for (const [field, value] of wrong)
    test(`creation with ${field} ${JSON.stringify(value)?.slice(0, 40)} is 400 naming it @name.pipeline @pipelines.create.400`, async ({
      request,
    }) => {
      const response = await request.post(path, { data: { ...fine, [field]: value } })
      await expectError(response, 400, new RegExp(`^${field}: `))
      await expectError(await request.get(`${path}/default/bronze/refused`), 404)
    })

  test('creation with a taken name is 409 @pipelines.create.409', async ({ request }) => {
    const { namespace, layer, name } = await newPipeline(request)
    await expectError(await request.post(path, { data: { namespace, layer, name } }), 409)
    await newPipeline(request, { namespace, layer: 'gold', name })
  })

  test('creation writes a publishable source from a table, zone or nothing @pipelines.create.source', async ({
    request,
  }) => {
    const source = async (source?: string) => {
      const made = await newPipeline(request, { source })
      await publish(request, made)
      return (await getJson(request, `/api/v1/files/${made.prefix}pipeline.sql`)).content
    }
    expect(await source()).toContain('select 1')
    expect(await source('silver.customers')).toContain("ref('silver.customers')")
    expect(await source('default.silver.customers')).toContain("ref('silver.customers')")
    expect(await source('drop-box')).toContain('landing_zone("drop-box")')
  })

  test('creation of a Python pipeline writes pipeline.py @pipelines.create.python', async ({ request }) => {
    const { prefix } = await newPipeline(request, { type: 'python' })
    const { files } = await getJson(request, '/api/v1/files', { prefix })
    expect(files.map((file: { path: string }) => file.path)).toEqual([
      `${prefix}config.yaml`,
      `${prefix}pipeline.py`,
    ])
  })

  test('creation with a unique key sets the incremental strategy @pipelines.create.unique_key', async ({
    request,
  }) => {
    const { prefix } = await newPipeline(request, { unique_key: 'order_id' })
    const { content } = await getJson(request, `/api/v1/files/${prefix}config.yaml`)
    expect(content).toContain('merge_strategy: incremental')
    expect(content).toContain('order_id')
  })
})

test.describe('pipeline list', () => {
  test('the pipeline list filters, searches and sorts, with an exact total @convention.sort @pipelines.list', async ({
    request,
  }) => {
    const namespace = await newNamespace(request)
    for (const [layer, name] of [
      ['bronze', 'orders_raw'],
      ['silver', 'orders'],
      ['silver', 'customers'],
    ])
      await newPipeline(request, { namespace, layer, name })
    const list = async (params: Record<string, string>) => {
      const { pipelines, total } = await getJson(request, path, { namespace, ...params })
      expect(total).toBe(pipelines.length)
      return pipelines.map(({ name }: { name: string }) => name)
    }
    for (const [params, names] of [
      [{}, ['customers', 'orders', 'orders_raw']],
      [{ layer: 'silver' }, ['customers', 'orders']],
      [{ search: 'ORDER' }, ['orders', 'orders_raw']],
      [{ search: 's_r' }, ['orders_raw']],
      [{ search: '%' }, []],
      [{ sort: 'name', order: 'asc' }, ['customers', 'orders', 'orders_raw']],
      [{ sort: 'created_at', order: 'asc' }, ['orders_raw', 'orders', 'customers']],
    ] as [Record<string, string>, string[]][])
      expect([params, await list(params)]).toEqual([params, names])
    await request.put(`${path}/${namespace}/bronze/orders_raw`, { data: { description: 'Touched' } })
    expect((await list({ sort: 'updated_at' }))[0]).toBe('orders_raw')
  })

  test('the pipeline list omits s3_path and includes last_run @pipelines.list.shape', async ({ request }) => {
    const { namespace } = await newPipeline(request, { namespace: await newNamespace(request) })
    const { pipelines } = await getJson(request, path, { namespace })
    expect(pipelines[0]).toMatchObject({ last_run: null, owner: null, type: 'sql', draft_dirty: true })
    expect(pipelines[0]).not.toHaveProperty('s3_path')
  })

  for (const [field, value] of [
    ['namespace', 'Not-A-Name'],
    ['layer', 'copper'],
    ['sort', 'owner'],
    ['order', 'sideways'],
  ] as const)
    test(`listing pipelines by ${field} ${value} is 400 naming it @pipelines.list.400`, async ({
      request,
    }) => {
      await expectError(
        await request.get(path, { params: { [field]: value } }),
        400,
        new RegExp(`^${field}: `),
      )
    })
})

test('an unknown or invalid pipeline address is 404', {
  tag: [
    '@pipelines.get.404',
    '@pipelines.update.404',
    '@pipelines.delete.404',
    '@pipelines.publish.404',
    '@pipelines.versions.404',
  ],
}, async ({ request }) => {
  for (const url of [
    nobody,
    `${path}/default/copper/a`,
    `${path}/Default/bronze/a`,
    `${path}/default/bronze/A`,
  ]) {
    await expectError(await request.get(url), 404)
    await expectError(await request.put(url, { data: {} }), 404)
    await expectError(await request.delete(url), 404)
    await expectError(await request.post(`${url}/publish`), 404)
    await expectError(await request.get(`${url}/versions`), 404)
    await expectError(await request.get(`${url}/versions/1`), 404)
    await expectError(await request.post(`${url}/rollback`, { data: { version: 1 } }), 404)
  }
})

test('a bad update is 400 naming the field and changes nothing @pipelines.update.400', async ({
  request,
}) => {
  const { url } = await newPipeline(request)
  const before = await getJson(request, url)
  for (const [field, value] of [
    ['type', 'r'],
    ['description', 7],
    ['description', null],
    ['owner', {}],
    ['max_versions', 0],
    ['max_versions', 1_001],
    ['max_versions', 1.5],
  ] as const)
    await expectError(await request.put(url, { data: { [field]: value } }), 400, new RegExp(`^${field}: `))
  expect(await getJson(request, url)).toEqual(before)
})

test.describe('pipeline publish', () => {
  test('publish pins every file and clears the dirty flag @pipelines.publish @pipelines.version @draft.published', async ({
    request,
  }) => {
    const { url, prefix } = await newPipeline(request)
    const source = await writeFile(request, `${prefix}pipeline.sql`, 'select 42 as answer')
    const config = await getJson(request, `/api/v1/files/${prefix}config.yaml`)
    const response = await request.post(`${url}/publish`, { data: { message: 'First' } })
    expect(response.status()).toBe(200)
    const versions = { [`${prefix}pipeline.sql`]: source, [`${prefix}config.yaml`]: config.version_id }
    const unblemished = (path: string) => ({ path, valid: true, errors: [], warnings: [] })
    expect(await response.json()).toEqual({
      status: 'published',
      version: 1,
      message: 'First',
      versions,
      validation: { valid: true, files: Object.keys(versions).toSorted().map(unblemished) },
    })
    expect(await getJson(request, url)).toMatchObject({
      draft_dirty: false,
      published_version: 1,
      published_at: instant,
    })

    await writeFile(request, `${prefix}pipeline.sql`, 'select 43 as answer')
    expect(await getJson(request, url)).toMatchObject({ draft_dirty: true, published_version: 1 })
    const version = await request.get(`${url}/versions/1`)
    expect([version.status(), await version.json()]).toEqual([
      200,
      {
        id: uuid,
        pipeline_id: uuid,
        version_number: 1,
        message: 'First',
        published_versions: versions,
        created_at: instant,
      },
    ])
  })

  test('uploading or deleting a file marks the draft dirty @draft.dirty', async ({ request }) => {
    const { url, prefix } = await newPipeline(request)
    const isDirty = async () => (await getJson(request, url)).draft_dirty
    await publish(request, { url })
    expect(await isDirty()).toBe(false)
    const multipart = { path: `${prefix}notes.md`, file: csv('notes.md', '#') }
    const uploaded = await request.post('/api/v1/files/upload', { multipart })
    expect([uploaded.status(), await isDirty()]).toEqual([201, true])
    await request.post(`${url}/publish`)
    const deleted = await request.delete(`/api/v1/files/${prefix}notes.md`)
    expect([deleted.status(), await isDirty()]).toEqual([204, true])
  })

  test('publish accepts an optional message, which must be text @pipelines.publish.message', async ({
    request,
  }) => {
    const { url } = await newPipeline(request)
    const published = await request.post(`${url}/publish`)
    expect([published.status(), (await published.json()).message]).toEqual([200, ''])
    await expectError(await request.post(`${url}/publish`, { data: { message: 7 } }), 400, /^message: /)
  })

  test('publish of an unparsable template is 422 with a file report @pipelines.publish.422', async ({
    request,
  }) => {
    const { url, prefix } = await newPipeline(request)
    await writeFile(request, `${prefix}pipeline.sql`, 'select * from {{ ref("silver.a" }}')
    const response = await request.post(`${url}/publish`)
    expect(response.status()).toBe(422)
    const body = await response.json()
    expect(Object.keys(body).sort()).toEqual(['error', 'validation'])
    expect(body).toEqual({
      error: expect.stringContaining('pipeline.sql'),
      validation: { valid: false, files: expect.any(Array) },
    })
    expect(body.validation.files).toContainEqual({
      path: `${prefix}pipeline.sql`,
      valid: false,
      errors: [expect.stringMatching(/line 1/)],
      warnings: expect.any(Array),
    })
    expect(await getJson(request, `${url}/versions`)).toEqual({ versions: [], total: 0 })
    expect(await getJson(request, url)).toMatchObject({
      draft_dirty: true,
      published_version: null,
    })
  })
})

test.describe('pipeline versions', () => {
  test('versions are listed newest first @pipelines.versions', async ({ request }) => {
    const { url } = await newPipeline(request)
    for (const message of ['one', 'two', 'three']) await request.post(`${url}/publish`, { data: { message } })
    const { versions, total } = await getJson(request, `${url}/versions`)
    expect(total).toBe(3)
    expect(versions.map((version: { message: string }) => version.message)).toEqual(['three', 'two', 'one'])
  })

  test('an invalid version number is 400, an unknown one 404 @pipelines.version.400 @pipelines.version.404', async ({
    request,
  }) => {
    const { url } = await newPipeline(request)
    await request.post(`${url}/publish`)
    for (const number of ['0', '-1', '1.5', 'one', '1e3'])
      await expectError(await request.get(`${url}/versions/${number}`), 400, /^number: /)
    for (const number of ['2', '99999999999'])
      await expectError(await request.get(`${url}/versions/${number}`), 404)
  })

  test('a rollback creates a version of old files and compares the draft @pipelines.rollback @draft.rollback', async ({
    request,
  }) => {
    const { url, prefix } = await newPipeline(request)
    await request.post(`${url}/publish`)
    await writeFile(request, `${prefix}pipeline.sql`, 'select 2 as two')
    await request.post(`${url}/publish`)
    const rolledBack = await request.post(`${url}/rollback`, { data: { version: 1 } })
    expect([rolledBack.status(), await rolledBack.json()]).toEqual([
      200,
      { status: 'rolled_back', from_version: 1, new_version: 3, message: 'Rollback to v1' },
    ])
    const version = async (number: number) => (await request.get(`${url}/versions/${number}`)).json()
    const [first, second, third] = [await version(1), await version(2), await version(3)]
    expect(third.published_versions).toEqual(first.published_versions)
    expect(second.published_versions).not.toEqual(first.published_versions)
    const { content } = await getJson(request, `/api/v1/files/${prefix}pipeline.sql`)
    expect(content).toBe('select 2 as two')
    const flag = async () => (await getJson(request, url)).draft_dirty
    expect(await flag()).toBe(true)
    const named = await request.post(`${url}/rollback`, { data: { version: 2, message: 'Forward' } })
    expect(await named.json()).toEqual({
      status: 'rolled_back',
      from_version: 2,
      new_version: 4,
      message: 'Forward',
    })
    // The draft is version 2, and so is version 4.
    expect(await flag()).toBe(false)
    await writeFile(request, `${prefix}pipeline.sql`, 'select 3 as three')
    await request.post(`${url}/rollback`, { data: { version: 1 } })
    expect(await flag()).toBe(true)
  })

  test('rollback to an unknown version is 404, to an invalid 400 @pipelines.rollback.400 @pipelines.rollback.404', async ({
    request,
  }) => {
    const { url } = await newPipeline(request)
    await expectError(await request.post(`${url}/rollback`, { data: { version: 1 } }), 404)
    for (const version of [undefined, 0, -1, 1.5, '1', null])
      await expectError(await request.post(`${url}/rollback`, { data: { version } }), 400, /^version: /)
    await expectError(
      await request.post(`${url}/rollback`, { data: { version: 1, message: 7 } }),
      400,
      /^message: /,
    )
  })

  test('concurrent publishes and rollbacks number versions 1 to n without gaps @pipelines.rollback.atomic @version.numbers', async ({
    request,
  }) => {
    const { url } = await newPipeline(request)
    await request.post(`${url}/publish`)
    const answers = await Promise.all(
      Array.from({ length: 20 }, (_, turn) =>
        turn % 2 ? request.post(`${url}/publish`) : request.post(`${url}/rollback`, { data: { version: 1 } }),
      ),
    )
    expect(answers.map((answer) => answer.status())).toEqual(Array(20).fill(200))
    const { versions } = await getJson(request, `${url}/versions`)
    expect(versions.map((version: { version_number: number }) => version.version_number)).toEqual(
      Array.from({ length: 21 }, (_, index) => 21 - index),
    )
  })
})
