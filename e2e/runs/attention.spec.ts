// The list of what needs attention, and the runs of one branch.
import { expect, test } from '@playwright/test'
import { fresh, getJson, newNamespace, pipelineWith, publish, writeFile } from '../kit/resources.ts'
import { ended, requestRun, runsOf, runToEnd, runToSuccess } from '../kit/runs.ts'

test('a failure needs attention until a later run on main succeeds', {
  tag: ['@attention', '@runs.list.branch'],
}, async ({ request }) => {
  const namespace = await newNamespace(request)
  const branch = fresh('b')
  expect((await request.post('/api/v1/branches', { data: { name: branch } })).status()).toBe(201)
  const pipeline = await pipelineWith(request, 'select no_such_column as a', { namespace, name: 'unsettled' })
  await publish(request, pipeline)
  const shown = async () => {
    const { items } = await getJson(request, '/api/v1/attention?limit=200')
    return items.filter((item: { namespace: string | null }) => item.namespace === namespace)
  }
  const failed = await runToEnd(request, pipeline)
  const needs = [{ kind: 'failed', pipeline: 'unsettled', branch: 'main', run_id: failed.id }]
  expect(await shown()).toMatchObject(needs)

  await writeFile(request, `${pipeline.prefix}pipeline.sql`, 'select 1 as a')
  const onBranch = await requestRun(request, pipeline, { branch, draft: true })
  expect(await ended(request, onBranch)).toMatchObject({ status: 'success' })
  expect(await shown()).toMatchObject(needs)
  expect(await getJson(request, `/api/v1/runs?branch=${branch}`)).toMatchObject({
    runs: [{ id: onBranch, branch }],
    total: 1,
  })

  await publish(request, pipeline)
  const settling = await runToSuccess(request, pipeline)
  expect(await shown()).toEqual([])
  expect((await runsOf(request, pipeline)).map(({ id }: { id: string }) => id)).toContain(settling.id)
  expect(await getJson(request, `/api/v1/runs?branch=main&namespace=${namespace}`)).toMatchObject({
    total: 2,
  })
})
