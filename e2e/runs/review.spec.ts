// The second contract: Review. Runs of pipelines with `merge: review`.
import { type APIRequestContext, expect, test } from '@playwright/test'
import { eventually } from '../kit/eventually.ts'
import {
  ENDLESS,
  expectError,
  fresh,
  getJson,
  type MadePipeline,
  newNamespace,
  newPipeline,
  newZone,
  pipelineWith,
  publish,
  rowsOf,
  writeFile,
} from '../kit/resources.ts'
import { cancel, ended, endedRuns, getRun, logOf, requestRun, runsOf, runToSuccess } from '../kit/runs.ts'

const path = '/api/v1/runs'
const NOT_IN_REVIEW = { code: 'FAILED_PRECONDITION', type: 'CONFLICT' }

/** Makes and publishes a pipeline whose runs wait for a review. */
async function reviewed(
  request: APIRequestContext,
  sql: string,
  { config = '', ...data }: { config?: string; namespace?: string; layer?: string; name?: string } = {},
): Promise<MadePipeline> {
  const pipeline = await newPipeline(request, { name: fresh('r').replaceAll('-', '_'), ...data })
  await writeFile(request, `${pipeline.prefix}pipeline.sql`, sql)
  await writeFile(request, `${pipeline.prefix}config.yaml`, `merge: review\n${config}`)
  await publish(request, pipeline)
  return pipeline
}

async function inReview(request: APIRequestContext, id: string) {
  await eventually(async () => (await getRun(request, id)).phase).toBe('review')
  return getRun(request, id)
}

const runIntoReview = async (request: APIRequestContext, pipeline: MadePipeline) => {
  const id = await requestRun(request, pipeline)
  await inReview(request, id)
  return id
}

const approve = (request: APIRequestContext, id: string, data?: object) =>
  request.post(`${path}/${id}/approve`, { data })
const reject = (request: APIRequestContext, id: string, data?: object) =>
  request.post(`${path}/${id}/reject`, { data })

const countOf = async (request: APIRequestContext, { namespace, layer, name }: MadePipeline) =>
  (await rowsOf(request, `select count(*)::int as n from ${layer}.${name}`, namespace))[0].n

async function expectApproved(request: APIRequestContext, id: string, status = 'success') {
  const answer = await approve(request, id)
  expect([answer.status(), await answer.json()]).toEqual([200, { run_id: id, status, stale_inputs: [] }])
}

test('main shows nothing of a run in review before its approval', {
  tag: ['@runs.approve', '@runs.approve.409'],
}, async ({ request }) => {
  const pipeline = await reviewed(request, 'select * from range(3) t(a)')
  const id = await runIntoReview(request, pipeline)
  expect(await getRun(request, id)).toMatchObject({
    status: 'running',
    phase: 'review',
    finished_at: null,
    merged_commit: null,
    rows_written: 3,
  })
  expect(await runsOf(request, pipeline)).toMatchObject([{ status: 'running', phase: 'review' }])
  const table = `/api/v1/tables/${pipeline.namespace}/${pipeline.layer}/${pipeline.name}`
  expect((await request.get(table)).status()).toBe(404)
  expect(await getJson(request, `${path}/${id}/diff`)).toMatchObject({
    from: 'main',
    tables: [{ name: pipeline.name, change: 'added', rows_added: 3, rows_removed: 0 }],
    total: 1,
  })
  expect((await logOf(request, id)).at(-1)?.message).toBe(
    'in review: approve or reject the run within 72 hours',
  )

  const answer = await approve(request, id, { message: 'three rows are right' })
  expect([answer.status(), await answer.json()]).toEqual([
    200,
    { run_id: id, status: 'success', stale_inputs: [] },
  ])
  expect(await getRun(request, id)).toMatchObject({ status: 'success', phase: null, attempt: 1, error: null })
  expect(await countOf(request, pipeline)).toBe(3)
  expect((await logOf(request, id)).map(({ message }) => message)).toContain('approved: three rows are right')
  expect(await getJson(request, `${path}/${id}/diff`)).toMatchObject({ tables: [{ rows_added: 3 }] })
  for (const again of [await approve(request, id), await reject(request, id, { message: 'no' })])
    expect([again.status(), await again.json()]).toMatchObject([409, { error: NOT_IN_REVIEW }])
})

test('a rejected run is failed with the text of the reviewer', {
  tag: ['@runs.reject', '@runs.reject.400', '@runs.reject.404', '@runs.reject.409', '@runs.approve.404'],
}, async ({ request }) => {
  const pipeline = await reviewed(request, 'select 1 as a')
  const id = await runIntoReview(request, pipeline)
  await expectError(await reject(request, id, {}), 400)
  await expectError(await reject(request, id, { message: '' }), 400)
  const answer = await reject(request, id, { message: 'May is missing' })
  expect([answer.status(), await answer.json()]).toEqual([200, { run_id: id, status: 'failed' }])
  expect(await getRun(request, id)).toMatchObject({ status: 'failed', error: 'May is missing' })
  const table = `/api/v1/tables/${pipeline.namespace}/${pipeline.layer}/${pipeline.name}`
  expect((await request.get(table)).status()).toBe(404)
  expect(await getJson(request, `${path}/${id}/diff`)).toMatchObject({ tables: [{ rows_added: 1 }] })
  expect((await reject(request, id, { message: 'again' })).status()).toBe(409)
  for (const unknown of ['00000000-0000-4000-8000-000000000000', 'x']) {
    await expectError(await approve(request, unknown), 404)
    await expectError(await reject(request, unknown, { message: 'no' }), 404)
  }
})

test('exactly one of many decisions at once wins', async ({ request }) => {
  const id = await runIntoReview(request, await reviewed(request, 'select 1 as a'))
  const answers = await Promise.all([
    ...Array.from({ length: 4 }, () => approve(request, id)),
    ...Array.from({ length: 4 }, () => reject(request, id, { message: 'no' })),
  ])
  expect(answers.map((answer) => answer.status()).sort()).toEqual([200, ...Array(7).fill(409)])
  expect(['success', 'failed']).toContain((await getRun(request, id)).status)
})

test('a run that is not in review cannot be approved or rejected', async ({ request }) => {
  const pipeline = await reviewed(request, ENDLESS)
  const id = await requestRun(request, pipeline)
  for (const answer of [await approve(request, id), await reject(request, id, { message: 'no' })])
    expect([answer.status(), await answer.json()]).toMatchObject([409, { error: NOT_IN_REVIEW }])
  await cancel(request, id)
})

test('a run in review can be cancelled', async ({ request }) => {
  const pipeline = await reviewed(request, 'select 1 as a')
  const id = await runIntoReview(request, pipeline)
  await cancel(request, id)
  expect(await getRun(request, id)).toMatchObject({ status: 'cancelled', phase: null })
  expect((await approve(request, id)).status()).toBe(409)
})

test('an approved run merges the same change after main moved', async ({ request }) => {
  // Every row is new, so both runs add the same row.
  const pipeline = await reviewed(request, 'select 1 as a', { config: 'merge_strategy: append_only\n' })
  const [first, second] = [await runIntoReview(request, pipeline), await runIntoReview(request, pipeline)]
  await expectApproved(request, second)
  expect(await countOf(request, pipeline)).toBe(1)
  // The first run was computed without the table, so its change has other columns, and it needs another review.
  await expectApproved(request, first, 'running')
  await eventually(async () => (await getRun(request, first)).attempt).toBe(2)
  await inReview(request, first)
  expect(await countOf(request, pipeline)).toBe(1)
  const third = await runIntoReview(request, pipeline)
  await expectApproved(request, third)
  // The third run added the same row to the same columns: the change of the first run stays the same.
  await expectApproved(request, first, 'running')
  expect(await ended(request, first)).toMatchObject({ status: 'success', attempt: 3 })
  expect(await countOf(request, pipeline)).toBe(3)
})

test('a run whose change differs after main moved asks for another review', async ({ request }) => {
  const pipeline = await reviewed(request, 'select 1 as a')
  await expectApproved(request, await runIntoReview(request, pipeline))
  await writeFile(request, `${pipeline.prefix}pipeline.sql`, 'select 2 as a')
  await publish(request, pipeline)
  const [first, second] = [await runIntoReview(request, pipeline), await runIntoReview(request, pipeline)]
  await expectApproved(request, second)
  // The same numbers of rows, and other rows: the table already has the row of the first run.
  await expectApproved(request, first, 'running')
  await eventually(async () => (await getRun(request, first)).attempt).toBe(2)
  await inReview(request, first)
  expect(await rowsOf(request, `select a from ${pipeline.layer}.${pipeline.name}`)).toEqual([{ a: 2 }])
  expect(await getJson(request, `${path}/${first}/diff`)).toMatchObject({
    tables: [{ rows_added: 0, rows_removed: 0 }],
  })
  expect((await reject(request, first, { message: 'done already' })).status()).toBe(200)
})

test('landing files are archived by the run that merges first', async ({ request }) => {
  const namespace = await newNamespace(request)
  const zone = await newZone(request, namespace, 'drop')
  const pipeline = await reviewed(request, `select * from read_csv('{{ landing_zone("drop") }}')`, {
    namespace,
    config: 'merge_strategy: append_only\narchive_landing_zones: true\n',
  })
  await zone.upload('a.csv', 'a,b\n1,2\n')
  const first = await runIntoReview(request, pipeline)
  const second = await runIntoReview(request, pipeline)
  await expectApproved(request, second)
  await zone.upload('b.csv', 'a,b\n3,4\n')
  await expectApproved(request, first, 'running')
  await inReview(request, first)
  await expectApproved(request, first)
  expect(await rowsOf(request, `select a, b from bronze.${pipeline.name} order by a`, namespace)).toEqual([
    { a: 1, b: 2 },
    { a: 3, b: 4 },
  ])
})

test('downstream pipelines start only after the merge', async ({ request }) => {
  const namespace = await newNamespace(request)
  const source = await reviewed(request, 'select 1 as a', { namespace, name: 'source' })
  const target = await newPipeline(request, { namespace, layer: 'silver', name: 'target' })
  await writeFile(request, `${target.prefix}pipeline.sql`, `select * from {{ ref('bronze.source') }}`)
  await publish(request, target).catch(() => {})
  const config = { namespace, layer: 'bronze', pipeline: 'source' }
  const trigger = await request.post(`${target.url}/triggers`, {
    data: { type: 'pipeline_success', config, cooldown_seconds: 0 },
  })
  expect(trigger.status(), await trigger.text()).toBe(201)
  const id = await runIntoReview(request, source)
  expect(await runsOf(request, target)).toEqual([])
  await expectApproved(request, id)
  expect(await endedRuns(request, target, 1)).toMatchObject([{ status: 'success' }])
})

test('a run into a branch and a blocked run need no review', async ({ request }) => {
  const pipeline = await reviewed(request, 'select 1 as a where 1 = 0 or true')
  const branch = fresh('b')
  expect((await request.post('/api/v1/branches', { data: { name: branch } })).status()).toBe(201)
  const onBranch = await ended(request, await requestRun(request, pipeline, { branch }))
  expect(onBranch).toMatchObject({ status: 'success', branch })

  const failing = await newPipeline(request, { name: fresh('f') })
  await writeFile(request, `${failing.prefix}pipeline.sql`, 'select 1 as a')
  await writeFile(request, `${failing.prefix}config.yaml`, 'merge: review\n')
  const data = { name: 'never', severity: 'error', sql: 'select 1' }
  expect((await request.post(`${failing.url}/tests`, { data })).status()).toBe(201)
  await publish(request, failing)
  expect(await ended(request, await requestRun(request, failing))).toMatchObject({ status: 'failed' })
})

test('an approved run names the inputs that are newer than its change', {
  tag: '@runs.approve.stale',
}, async ({ request }) => {
  const namespace = await newNamespace(request)
  const made = async (name: string, sql: string, config?: string) => {
    const pipeline = await pipelineWith(request, sql, { namespace, layer: 'silver', name })
    if (config !== undefined) await writeFile(request, `${pipeline.prefix}config.yaml`, config)
    await publish(request, pipeline)
    return { ...pipeline, commit: (await runToSuccess(request, pipeline)).merged_commit }
  }
  const random = (name: string) => made(name, 'select random() as a')
  const [kept, moved, seen] = [await random('kept'), await random('moved'), await random('seen')]
  await made('shown', `select a from {{ ref('silver.seen') }}`, 'materialized: view\n')
  const reader = await reviewed(
    request,
    `{% for table in ['kept', 'moved', 'shown'] %}select a from {{ ref('silver.' ~ table) }}{% if not loop.last %} union all {% endif %}{% endfor %}`,
    { namespace, name: 'reader' },
  )
  const id = await runIntoReview(request, reader)
  expect(await getRun(request, id)).toMatchObject({ stale_inputs: null })
  const [newer, under] = [await runToSuccess(request, moved), await runToSuccess(request, seen)]
  const stale_inputs = [
    { table: `${namespace}.silver.moved`, read_commit: moved.commit, latest_commit: newer.merged_commit },
    { table: `${namespace}.silver.seen`, read_commit: seen.commit, latest_commit: under.merged_commit },
  ]
  const answer = await approve(request, id)
  expect([answer.status(), await answer.json()]).toEqual([
    200,
    { run_id: id, status: 'success', stale_inputs },
  ])
  await runToSuccess(request, kept)
  expect(await getRun(request, id)).toMatchObject({ status: 'success', stale_inputs })
  expect((await logOf(request, id)).map(({ message }) => message)).toContainEqual(
    expect.stringMatching(/^input tables newer than the approved change: 2: /),
  )
})

test('a view waits for its review, too', async ({ request }) => {
  const pipeline = await reviewed(request, 'select 1 as a', { config: 'materialized: view\n', layer: 'gold' })
  const id = await runIntoReview(request, pipeline)
  expect(await getJson(request, `${path}/${id}/diff`)).toMatchObject({ tables: [{ change: 'added' }] })
  await expectApproved(request, id)
  expect(await countOf(request, pipeline)).toBe(1)
})

test('publish refuses wrong settings of a review', async ({ request }) => {
  const pipeline = await newPipeline(request, { name: fresh('w') })
  await writeFile(request, `${pipeline.prefix}pipeline.sql`, 'select 1 as a')
  for (const [config, message] of [
    ['merge: manual', /merge: must be one of auto, review/],
    ['merge: review\nreview_timeout_hours: 0', /review_timeout_hours: must be a whole number from 1/],
    ['merge: review\nreviewers: everybody', /reviewers: must be one of any, four-eyes/],
  ] as const) {
    await writeFile(request, `${pipeline.prefix}config.yaml`, config)
    const refused = await request.post(`${pipeline.url}/publish`)
    expect([refused.status(), await refused.text()]).toEqual([422, expect.stringMatching(message)])
  }
  await writeFile(request, `${pipeline.prefix}config.yaml`, 'merge: auto')
  await publish(request, pipeline)
  await runToSuccess(request, pipeline)
})
