// The details of runs and of the installation that the console shows.
import { expect, test } from '@playwright/test'
import {
  addTest,
  fresh,
  getJson,
  newNamespace,
  newZone,
  publish,
  publishedPipeline,
  writeFile,
} from '../kit/resources.ts'
import { runToSuccess } from '../kit/runs.ts'

test('a run shows its test results and inputs @runs.tests @runs.inputs @runs.tests.404', async ({
  request,
}) => {
  const namespace = await newNamespace(request)
  const zone = await newZone(request, namespace)
  await zone.upload('a.csv')
  const source = `select * from read_csv('{{ landing_zone("${zone.name}") }}')`
  const pipeline = await publishedPipeline(request, source, { namespace })
  await addTest(request, pipeline, { name: 'few', sql: 'select * from {{ this }}', severity: 'warn' })
  await publish(request, pipeline)
  const { id } = await runToSuccess(request, pipeline)
  expect(await getJson(request, `/api/v1/runs/${id}/tests`)).toMatchObject({
    results: [{ name: 'few', status: 'failed', severity: 'warn', value: 1, samples: ['a=1, b=2'] }],
    passed: 0,
    failed: 1,
    total: 1,
  })
  const inputs = await getJson(request, `/api/v1/runs/${id}/inputs`)
  expect(inputs).toMatchObject({
    landing_files: [{ namespace, zone: zone.name, size_bytes: 8, archived: false }],
    landing_file_count: 1,
  })
  const code = inputs.code.find(({ path }: { path: string }) => path.endsWith('pipeline.sql'))
  const file = await getJson(request, `/api/v1/files/${code.path}`, { version_id: code.version_id })
  expect(file.content).toBe(source)
  const { logs } = await getJson(request, `/api/v1/runs/${id}/logs`)
  const rendered = logs.find(({ message }: { message: string }) => message.startsWith('rendered SQL:'))
  expect(rendered).toMatchObject({ level: 'debug', message: expect.stringContaining('read_csv(') })
  const unknown = '00000000-0000-7000-8000-000000000000'
  for (const part of ['tests', 'inputs'])
    expect((await request.get(`/api/v1/runs/${unknown}/${part}`)).status()).toBe(404)
})

test('pipelines are listed by tag and state @pipelines.list.tag @pipelines.list.state', async ({
  request,
}) => {
  const namespace = await newNamespace(request)
  const tag = fresh('tag')
  const tagged = await publishedPipeline(request, 'select 1 as n', { namespace, name: 'tagged' })
  await publishedPipeline(request, 'select 1 as n', { namespace, name: 'other' })
  await writeFile(request, `${tagged.prefix}config.yaml`, `tags: [${tag}]\n`)
  const named = async (query: Record<string, string>) =>
    (await getJson(request, '/api/v1/pipelines', query)).pipelines.map(({ name }: { name: string }) => name)
  expect(await named({ tag })).toEqual([])
  expect(await named({ namespace, state: 'changed' })).toEqual(['tagged'])
  await publish(request, tagged)
  expect(await named({ tag })).toEqual(['tagged'])
  expect(await named({ namespace, state: 'changed' })).toEqual([])
  expect((await request.get('/api/v1/pipelines', { params: { state: 'nonsense' } })).status()).toBe(400)
})

test('replicas and runners are listed @replicas.list', async ({ request }) => {
  const { replicas, runners } = await getJson(request, '/api/v1/admin/replicas')
  expect(replicas).toContainEqual(expect.objectContaining({ alive: true }))
  expect(replicas.flatMap(({ leads }: { leads: string[] }) => leads)).toContain('scheduler')
  expect(runners.length).toBeGreaterThan(0)
})
