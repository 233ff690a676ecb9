import { beforeAll, beforeEach, expect, test } from 'bun:test'
import { duringTests } from '../../tools/kit/during.ts'
import type { App } from '../composition/server.ts'
import { requestTo, testApp } from '../composition/test-app.ts'
import { openTestCatalog, type TestAttempt } from '../iceberg/test-catalog.ts'
import { closeBranches } from '../versions/store/branches.ts'
import { commitToTestBranch, openTestBranch } from '../versions/test-rows.ts'
import { commitRoutes, tableHistoryRoutes } from './routes.ts'
import { makeHistoryService } from './service.ts'
import { testHistory } from './testing.ts'

const catalog = duringTests(() => openTestCatalog())
let app: App
beforeAll(() => {
  const history = makeHistoryService(testHistory(catalog))
  app = testApp({ api: [commitRoutes(history), tableHistoryRoutes(history)] })
})
beforeEach(async () => {
  await catalog.sql`truncate lake_ref, lake_commit, main_entry, branch_entry, lake_content`
  await catalog.sql`insert into lake_ref (name, kind, state, number) values ('main', 'main', 'open', 0)`
})

const get = async (path: string) => (await requestTo(app, 'GET', `/api/v1${path}`)).json()
const statusOf = async (path: string) => (await requestTo(app, 'GET', `/api/v1${path}`)).status
const HISTORY = '/tables/default/gold/orders/history'

/** Writes a table on a branch of a run and merges it. */
async function run(query: string, operation: Parameters<TestAttempt['write']>[1], name = 'orders') {
  const attempt = await catalog.attempt({ namespace: 'default', layer: 'gold', name })
  const { commit, metadata } = await attempt.write(query, operation)
  expect(await catalog.merge(attempt, commit)).toBe('merged')
  return { ...attempt, commit, snapshotId: String(metadata['current-snapshot-id']) }
}

test('the history of a table has the numbers of each state, newest first', async () => {
  const first = await run('select unnest(range(3)) as id', 'append')
  await run('select 1 as id', 'append', 'items')
  const second = await run('select unnest(range(2)) as id', 'append')
  const third = await run("select 7 as id, 'a' as state", 'overwrite')
  const state = { size_bytes: expect.any(Number), created_at: expect.any(String) }
  expect(await get(HISTORY)).toEqual({
    history: [
      {
        ...state,
        commit: 4,
        commit_id: third.commit,
        snapshot_id: third.snapshotId,
        run_id: third.runId,
        operation: 'overwrite',
        row_count: 1,
        rows_added: 1,
        rows_removed: 5,
        schema_changed: true,
      },
      {
        ...state,
        commit: 3,
        commit_id: second.commit,
        snapshot_id: second.snapshotId,
        run_id: second.runId,
        operation: 'append',
        row_count: 5,
        rows_added: 2,
        rows_removed: 0,
        schema_changed: false,
      },
      {
        ...state,
        commit: 1,
        commit_id: first.commit,
        snapshot_id: first.snapshotId,
        run_id: first.runId,
        operation: 'append',
        row_count: 3,
        rows_added: 3,
        rows_removed: 0,
        schema_changed: false,
      },
    ],
    total: 3,
  })
  const page = await get(`${HISTORY}?limit=1&offset=1`)
  expect([page.history.map(({ commit }: { commit: number }) => commit), page.total]).toEqual([[3], 3])
})

test('the history of a branch shows its own states over those of main', async () => {
  const { sql } = catalog
  await run('select 1 as id', 'append')
  await sql.begin((tx) => openTestBranch(tx, 'dev', 1))
  await run('select 2 as id', 'append')
  expect((await get(`${HISTORY}?branch=dev`)).history).toMatchObject([{ commit: 1 }])
  const own = await commitToTestBranch(sql, 'dev', 'orders')
  const [latest, ...older] = (await get(`${HISTORY}?branch=dev`)).history
  expect(latest).toMatchObject({ commit: null, commit_id: own.id, run_id: null, row_count: 3 })
  expect(older).toMatchObject([{ commit: 1 }])
  await sql.begin((tx) => openTestBranch(tx, 'other', 1))
  await sql`update lake_ref set head = (select head from lake_ref where name = 'dev') where name = 'other'`
  await sql`insert into branch_entry select 'other', namespace, layer, name, content_id, base_content from branch_entry where ref = 'dev'`
  expect((await get(`${HISTORY}?branch=other`)).history).toMatchObject([
    { commit: null, commit_id: own.id },
    { commit: 1 },
  ])
})

test('states that runs merged into a branch stay in its history', async () => {
  const { sql } = catalog
  await sql.begin((tx) => openTestBranch(tx, 'dev', 0))
  await sql`insert into lake_ref (name, kind, base, parent) values ('run-a-1', 'run', 0, 'dev')`
  const first = await commitToTestBranch(sql, 'run-a-1', 'orders')
  await sql`update lake_ref set state = 'merged' where name = 'run-a-1'`
  await sql`insert into branch_entry select 'dev', namespace, layer, name, content_id, base_content from branch_entry`
  const second = await commitToTestBranch(sql, 'dev', 'orders')
  const { history, total } = await get(`${HISTORY}?branch=dev`)
  expect(history.map((state: { commit_id: string }) => state.commit_id)).toEqual([second.id, first.id])
  expect(total).toBe(2)
})

test('an unknown table and a closed branch have no history', async () => {
  await run('select 1 as id', 'append')
  expect(await statusOf('/tables/default/gold/absent/history')).toBe(404)
  expect(await statusOf(`${HISTORY}?branch=absent`)).toBe(404)
  await catalog.sql.begin((tx) => openTestBranch(tx, 'dev', 1))
  await catalog.sql.begin((tx) => closeBranches(tx, ['dev']))
  expect(await statusOf(`${HISTORY}?branch=dev`)).toBe(404)
})

test('commits of main are listed by table, namespace and time', async () => {
  await run('select 1 as id', 'append')
  await run('select 1 as id', 'append', 'items')
  const numbers = async (query: string) => {
    const { commits, total } = await get(`/commits?${query}`)
    expect(commits).toHaveLength(total)
    return commits.map(({ number }: { number: number }) => number)
  }
  expect(await numbers('')).toEqual([2, 1])
  expect(await numbers('table=default.gold.orders')).toEqual([1])
  expect(await numbers('table=default.gold.absent')).toEqual([])
  expect(await numbers('namespace=default')).toEqual([2, 1])
  expect(await numbers('namespace=other')).toEqual([])
  const [{ created_at: time }] = (await get('/commits?table=default.gold.items')).commits
  expect(await numbers(`from=${time}`)).toEqual([2])
  expect(await numbers(`to=${time}`)).toEqual([1])
  for (const wrong of ['table=orders', 'namespace=A', 'from=soon', 'to=2026-99-99'])
    expect([wrong, await statusOf(`/commits?${wrong}`)]).toEqual([wrong, 400])
})

test('a caller sees only commits of visible tables', async () => {
  await run('select 1 as id', 'append')
  const history = makeHistoryService(testHistory(catalog))
  const sees = (...namespaces: string[]) => ({ pipelines: [], zones: [], namespaces })
  expect(await history.commits({}, sees('default'))).toMatchObject({ total: 1 })
  expect(await history.commits({}, sees('other'))).toMatchObject({ commits: [], total: 0 })
})
