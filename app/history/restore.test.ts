import { beforeAll, beforeEach, expect, test } from 'bun:test'
import { currentSchema, type TableMetadata } from '../../lake/iceberg/format/metadata.ts'
import { duringTests } from '../../tools/kit/during.ts'
import type { App } from '../composition/server.ts'
import { requestTo, testApp } from '../composition/test-app.ts'
import { openTestCatalog, type TestAttempt } from '../iceberg/test-catalog.ts'
import { tableHistoryRoutes } from './routes.ts'
import { makeHistoryService } from './service.ts'
import { testHistory } from './testing.ts'

const catalog = duringTests(() => openTestCatalog())
const orders = { namespace: 'default', layer: 'gold', name: 'orders' } as const
const identifier = { namespace: ['default', 'gold'], name: 'orders' }
let app: App
beforeAll(() => {
  app = testApp({ api: [tableHistoryRoutes(makeHistoryService(testHistory(catalog)))] })
})
beforeEach(async () => {
  await catalog.sql`truncate lake_ref, lake_commit, main_entry, branch_entry, lake_content`
  await catalog.sql`insert into lake_ref (name, kind, state, number) values ('main', 'main', 'open', 0)`
})

const restore = (body: object, name = 'orders') =>
  requestTo(app, 'POST', `/api/v1/tables/default/gold/${name}/restore`, body)
const restored = async (body: object) => {
  const response = await restore(body)
  expect(response.status).toBe(200)
  return response.json()
}
const errorOf = async (response: Response) => {
  const { error } = (await response.json()) as { error: { message: string } }
  return [response.status, error.message]
}

async function run(query: string, operation: Parameters<TestAttempt['write']>[1]) {
  const attempt = await catalog.attempt(orders)
  const { commit } = await attempt.write(query, operation)
  expect(await catalog.merge(attempt, commit)).toBe('merged')
}

/** The table on main, with its rows. */
async function main(): Promise<{ metadata: TableMetadata; rows: Record<string, unknown>[] }> {
  const { client, token } = await catalog.reader()
  const { metadata } = await client.loadTable(identifier)
  return { metadata, rows: await catalog.rows(token, metadata) }
}

test('a restored table has the earlier rows in a new snapshot, and appends continue', async () => {
  await run("select unnest(['1', '2']) as id", 'append')
  await run("select '3' as id", 'append')
  await run("select 'x' as id", 'overwrite')
  const before = await main()
  expect(await restored({ commit: 2 })).toEqual({ commit: 4, restored_from: 2 })
  const { metadata, rows } = await main()
  expect(rows).toEqual([{ id: '1' }, { id: '2' }, { id: '3' }])
  const [last, previous] = metadata.snapshots.toReversed()
  expect(last).toMatchObject({
    'snapshot-id': metadata['current-snapshot-id'],
    'parent-snapshot-id': before.metadata['current-snapshot-id'],
    'sequence-number': (previous?.['sequence-number'] ?? 0) + 1,
    summary: {
      operation: 'overwrite',
      'total-records': '3',
      'added-records': '3',
      'deleted-records': '1',
      'sluice.restored-commit': '2',
    },
  })
  expect(metadata['last-sequence-number']).toBe(last?.['sequence-number'] ?? -1)
  expect(metadata['metadata-log'].length).toBe(before.metadata['metadata-log'].length + 1)

  await run("select '4' as id", 'append')
  expect((await main()).rows).toEqual([{ id: '1' }, { id: '2' }, { id: '3' }, { id: '4' }])
  const { history } = await (await requestTo(app, 'GET', '/api/v1/tables/default/gold/orders/history')).json()
  expect(history).toMatchObject([
    { operation: 'append', row_count: 4 },
    { commit: 4, operation: 'restore', row_count: 3, rows_added: 3, rows_removed: 1, run_id: null },
    {},
    {},
    {},
  ])
})

test('a restored table has the earlier columns with their field ids', async () => {
  await run("select '1' as id, 'a' as word", 'append')
  const before = await main()
  await run("select '2' as id, 7::bigint as word, 'x' as other", 'overwrite')
  await restored({ commit: 1 })
  const { metadata, rows } = await main()
  expect(rows).toEqual([{ id: '1', word: 'a' }])
  expect(currentSchema(metadata).fields).toEqual(currentSchema(before.metadata).fields)
  expect(metadata['last-column-id']).toBeGreaterThan(before.metadata['last-column-id'])
  await run("select '3' as id, 'b' as word, 'c' as third", 'append')
  const after = await main()
  expect(after.rows).toEqual([
    { id: '1', word: 'a', third: null },
    { id: '3', word: 'b', third: 'c' },
  ])
  const ids = currentSchema(after.metadata).fields.map(({ id }) => id)
  expect(Math.max(...ids)).toBeGreaterThan(metadata['last-column-id'])
})

test('a state whose snapshot the metadata no longer lists is restored', async () => {
  await run("select '0' as id", 'append')
  for (let i = 1; i < 27; i += 1) await run(`select '${i}' as id`, 'overwrite')
  const { metadata } = await main()
  expect(metadata.snapshots.some(({ 'sequence-number': sequence }) => sequence === 1)).toBe(false)
  await restored({ commit: 1 })
  expect((await main()).rows).toEqual([{ id: '0' }])
})

test('a time restores the state of that time', async () => {
  await run("select '1' as id", 'append')
  const [first] = await catalog.sql<{ at: Date }[]>`
    select created_at as at from lake_commit where number = 1`
  await catalog.sql`update lake_commit set created_at = created_at - interval '1 hour' where number = 1`
  await run("select '2' as id", 'overwrite')
  const time = new Date(Number(first?.at) - 1_800_000).toISOString()
  expect(await restored({ time })).toEqual({ commit: 3, restored_from: 1 })
  expect((await main()).rows).toEqual([{ id: '1' }])
})

test('a table that has the content already gets no commit', async () => {
  await run("select '1' as id", 'append')
  expect(await restored({ commit: 1 })).toEqual({ commit: 1, restored_from: 1 })
  expect((await catalog.reader()).commit).toBe(1)
})

test('a run that started before the restore conflicts', async () => {
  await run("select '1' as id", 'append')
  await run("select '2' as id", 'overwrite')
  const attempt = await catalog.attempt(orders)
  const { commit } = await attempt.write("select '3' as id", 'append')
  await restored({ commit: 1 })
  expect(await catalog.merge(attempt, commit)).toBe('conflict')
  expect((await main()).rows).toEqual([{ id: '1' }])
})

test('concurrent restores and merges are a sequence of commits', async () => {
  await run("select '1' as id", 'append')
  await run("select '2' as id", 'overwrite')
  const attempts = await Promise.all(Array.from({ length: 3 }, () => catalog.attempt(orders)))
  const merges = attempts.map(async (attempt) => {
    const { commit } = await attempt.write("select '9' as id", 'append')
    return (await catalog.merge(attempt, commit)) === 'merged'
  })
  const restores = Array.from({ length: 4 }, async () => (await restored({ commit: 1 })).commit)
  const [merged, commits] = await Promise.all([Promise.all(merges), Promise.all(restores)])
  const numbers =
    await catalog.sql`select number::int as number from lake_commit where number > 2 order by number`
  const made = merged.filter(Boolean).length + new Set(commits).size
  expect(numbers.map(({ number }) => number)).toEqual(Array.from({ length: made }, (_, i) => i + 3))
})

test('unknown and expired commits are 404, and wrong bodies are 400', async () => {
  await run("select '1' as id", 'append')
  await run("select '2' as id", 'overwrite')
  expect(await errorOf(await restore({ commit: 99 }))).toEqual([
    404,
    'version 99 of main not found: the oldest kept commit is 0',
  ])
  expect(await errorOf(await restore({ commit: 0 }))).toEqual([
    404,
    'table default.gold.orders not found at commit 0: its oldest kept commit is 1',
  ])
  await catalog.sql`update lake_ref set base = 2 where name = 'main'`
  expect(await errorOf(await restore({ commit: 1 }))).toEqual([
    404,
    'version 1 of main not found: the oldest kept commit is 2',
  ])
  expect((await restore({ commit: 2 }, 'absent')).status).toBe(404)
  for (const body of [
    {},
    { commit: 1, time: '2026-01-01' },
    { commit: -1 },
    { commit: 'x' },
    { time: 'soon' },
  ])
    expect([body, (await restore(body)).status]).toEqual([body, 400])
})
