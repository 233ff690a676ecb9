// Many branches are written and merged at the same time, through the runner.
import { type APIRequestContext, expect, test } from '@playwright/test'
import { fresh, getJson, newNamespace, pipelineWith, publishedPipeline, rowsOf } from '../kit/resources.ts'
import { ended, newTable, requestRun } from '../kit/runs.ts'

const BRANCHES = 20
const TABLES_PER_BRANCH = 2
const RIVALS = 8

const range = (n: number) => [...Array(n).keys()]

test('40 runs on 20 branches and 20 merges at once lose nothing @branches.merge.many', async ({
  request,
}) => {
  const namespace = await newNamespace(request)
  const branches = await openBranches(request, BRANCHES)
  const pipelines = await Promise.all(
    range(BRANCHES * TABLES_PER_BRANCH).map((n) =>
      publishedPipeline(request, `select ${n} as n from range(${n + 1})`, { namespace, layer: 'gold' }),
    ),
  )
  const branchOf = (n: number) => branches[n % BRANCHES] as string
  const ids = await Promise.all(
    pipelines.map((pipeline, n) => requestRun(request, pipeline, { branch: branchOf(n) })),
  )
  const runs = await Promise.all(ids.map((id) => ended(request, id)))
  expect(runs.map(({ status, error }) => [status, error])).toEqual(runs.map(() => ['success', null]))

  const merges = await Promise.all(branches.map((branch) => merge(request, branch)))
  expect(merges.map(([status, { tables }]) => [status, tables?.length])).toEqual(
    branches.map(() => [200, TABLES_PER_BRANCH]),
  )
  expect(new Set(merges.map(([, { commit }]) => commit)).size).toBe(BRANCHES)
  expect((await getJson(request, '/api/v1/commits', { namespace })).total).toBe(BRANCHES)
  const counts = pipelines.map(
    ({ name }, n) => `select ${n} as n, count(*)::int as rows, max(n) as max from gold."${name}"`,
  )
  expect(await rowsOf(request, `${counts.join(' union all ')} order by n`, namespace)).toEqual(
    pipelines.map((_, n) => ({ n, rows: n + 1, max: n })),
  )
})

test('one of eight branches that change the same tables merges @branches.merge.rivals', async ({
  request,
}) => {
  const namespace = await newNamespace(request)
  const table = await newTable(request, { namespace, layer: 'gold' }, 'select 0 as n')
  const writer = await pipelineWith(request, 'select 1 as n', { namespace, layer: 'gold' })
  const branches = await openBranches(request, RIVALS)
  for (const branch of branches) {
    const ids = await Promise.all([table, writer].map((each) => requestRun(request, each, { branch })))
    for (const id of ids) expect((await ended(request, id)).status).toBe('success')
  }
  const before = (await getJson(request, '/api/v1/commits', { namespace })).total
  const merges = await Promise.all(branches.map((branch) => merge(request, branch)))
  expect(merges.map(([status]) => status).sort()).toEqual([200, ...Array(RIVALS - 1).fill(409)])
  for (const [status, body] of merges)
    if (status === 409)
      expect(body).toMatchObject({
        error: { code: 'FAILED_PRECONDITION' },
        conflicts: [table, writer].map(({ name }) => `${namespace}.gold.${name}`).sort(),
      })
  expect((await getJson(request, '/api/v1/commits', { namespace })).total).toBe(before + 1)
  // The refused branches keep their work.
  const states = await Promise.all(
    branches.map(async (branch) => (await getJson(request, `/api/v1/branches/${branch}`)).status),
  )
  expect(states.sort()).toEqual(['merged', ...Array(RIVALS - 1).fill('open')].sort())
})

async function openBranches(request: APIRequestContext, count: number): Promise<string[]> {
  const names = range(count).map(() => fresh('at-once'))
  const created = await Promise.all(names.map((name) => request.post('/api/v1/branches', { data: { name } })))
  expect(created.map((answer) => answer.status())).toEqual(names.map(() => 201))
  return names
}

interface Merge {
  commit?: number
  tables?: string[]
  conflicts?: string[]
}

async function merge(request: APIRequestContext, branch: string): Promise<[number, Merge]> {
  const answer = await request.post(`/api/v1/branches/${branch}/merge`, { data: {} })
  return [answer.status(), await answer.json()]
}
