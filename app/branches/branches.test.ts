import { beforeAll, beforeEach, expect, test } from 'bun:test'
import { useDatabase } from '../../tools/service/database.ts'
import { addPipeline } from '../../workers/testing.ts'
import type { App } from '../composition/server.ts'
import { requestTo, testApp } from '../composition/test-app.ts'
import { newId } from '../core/ids.ts'
import { reapingNow } from '../retention/test-rows.ts'
import { mergeBranches, openBranches } from '../versions/store/branches.ts'
import { expireLakeHistory } from '../versions/store/history.ts'
import { commitToTestBranch } from '../versions/test-rows.ts'
import { branchRoutes, tagRoutes } from './routes.ts'
import { makeBranchService } from './service.ts'
import { makeTagService } from './tags.ts'
import { mergesOf } from './test-merges.ts'

const database = useDatabase({ rawConnections: 4 })
let app: App
beforeAll(() => {
  app = testApp({
    api: [
      branchRoutes(makeBranchService(database), mergesOf(database.sql).service),
      tagRoutes(makeTagService(database)),
    ],
  })
})
beforeEach(async () => {
  await database.sql`truncate lake_ref, lake_commit, main_entry, branch_entry, lake_content, idempotency_key`
  await database.sql`insert into lake_ref (name, kind, state, number) values ('main', 'main', 'open', 0)`
})

const call = (method: string, path: string, body?: object, headers = {}) =>
  requestTo(app, method, `/api/v1/branches${path}`, body, headers)
const answer = async <Body = object>(response: Response | Promise<Response>) =>
  (await (await response).json()) as Body
const errorOf = async (response: Response) => [
  response.status,
  ((await response.json()) as { error: { code: string } }).error.code,
]

/** Commits a new state of a table to main, as a run does. */
async function commitToMain(table: string) {
  const { sql } = database
  const branch = `run-${newId()}-1`
  const [main] = await sql`select number from lake_ref where name = 'main'`
  const opening = { branch, base: Number(main?.number), runId: newId(), attempt: 1 }
  await sql.begin((tx) => openBranches(tx, [opening]))
  const { id } = await commitToTestBranch(sql, branch, table)
  await sql.begin((tx) => mergeBranches(tx, [{ ...opening, testedCommit: id, message: `a run of ${table}` }]))
}

test('a new branch stands on the head of main without changes', async () => {
  await commitToMain('flights')
  const created = await call('POST', '', { name: 'dev', description: 'Mine', expires_in_hours: 2 })
  expect(created.status).toBe(201)
  const branch = await answer(created)
  expect(branch).toEqual({
    name: 'dev',
    base_commit: 1,
    head: null,
    commits_ahead: 0,
    commits_behind: 0,
    tables_changed: 0,
    status: 'open',
    protected: false,
    description: 'Mine',
    created_by: null,
    created_at: expect.any(String),
    updated_at: expect.any(String),
    is_idle: false,
    expires_at: expect.any(String),
  })
  expect(await answer(call('GET', '/dev'))).toEqual({ ...(branch as object), drafts: [] })
  const { branches, total } = (await answer(call('GET', ''))) as {
    branches: { name: string }[]
    total: number
  }
  expect([branches.map(({ name }) => name), total]).toEqual([['main', 'dev'], 2])
})

test('main is listed first with its head and its commits', async () => {
  await commitToMain('flights')
  await commitToMain('delays')
  expect(await answer(call('GET', '/main'))).toMatchObject({
    base_commit: 2,
    protected: true,
    commits_ahead: 0,
  })
  const { commits, total } = await answer<{ commits: object[]; total: number }>(call('GET', '/main/commits'))
  expect(total).toBe(2)
  expect(commits).toMatchObject([
    { number: 2, tables: ['default.gold.delays'], message: 'a run of delays', build_id: null },
    { number: 1, tables: ['default.gold.flights'] },
  ])
})

test('a branch from an older commit is behind main', async () => {
  await commitToMain('flights')
  await commitToMain('flights')
  const early = await answer(call('POST', '', { name: 'early', as_of: 1 }))
  expect(early).toMatchObject({ base_commit: 1, commits_behind: 1 })
  expect(await answer(call('POST', '', { name: 'first', as_of: 0 }))).toMatchObject({ base_commit: 0 })
  for (const [as_of, status] of [
    [3, 404],
    ['2000-01-01', 404],
    ['no-such-tag', 404],
    ['2026-99-99', 400],
    ['-1', 400],
  ] as const)
    expect([as_of, (await call('POST', '', { name: 'late', as_of })).status]).toEqual([as_of, status])
})

test('a branch from a branch copies its changes and its base', async () => {
  await commitToMain('flights')
  await call('POST', '', { name: 'dev' })
  await commitToMain('flights')
  const { contentId } = await commitToTestBranch(database.sql, 'dev', 'flights')
  const copied = await answer(call('POST', '', { name: 'copy', from: 'dev' }))
  expect(copied).toMatchObject({ base_commit: 1, tables_changed: 1, commits_behind: 1 })
  const entries = await database.sql`select content_id, base_content from branch_entry order by ref`
  expect(entries[0]).toEqual(entries[1])
  expect(entries[0]?.content_id).toBe(contentId)
})

test('bad names, sources and repeated names are refused', async () => {
  await call('POST', '', { name: 'dev' })
  const cases: [object, number, string][] = [
    [{ name: 'run-1' }, 400, 'INVALID_ARGUMENT'],
    [{ name: 'build-1' }, 400, 'INVALID_ARGUMENT'],
    [{ name: 'Dev' }, 400, 'INVALID_ARGUMENT'],
    [{ name: '1dev' }, 400, 'INVALID_ARGUMENT'],
    [{ name: 'a'.repeat(64) }, 400, 'INVALID_ARGUMENT'],
    [{ name: 'x', from: 'dev', as_of: 0 }, 400, 'INVALID_ARGUMENT'],
    [{ name: 'x', expires_in_hours: 0 }, 400, 'INVALID_ARGUMENT'],
    [{ name: 'x', from: 'absent' }, 404, 'NOT_FOUND'],
    [{ name: 'dev' }, 409, 'ALREADY_EXISTS'],
    [{ name: 'main' }, 409, 'ALREADY_EXISTS'],
  ]
  for (const [body, status, code] of cases)
    expect([body, ...(await errorOf(await call('POST', '', body)))]).toEqual([body, status, code])
})

test('one of many concurrent creations of a name succeeds', async () => {
  const statuses = await Promise.all(
    Array.from({ length: 8 }, async () => (await call('POST', '', { name: 'raced' })).status),
  )
  expect(statuses.sort()).toEqual([201, 409, 409, 409, 409, 409, 409, 409])
})

test('a repeated idempotency key returns the first branch', async () => {
  const headers = { 'idempotency-key': 'once' }
  const first = await call('POST', '', { name: 'dev' }, headers)
  const second = await call('POST', '', { name: 'dev' }, headers)
  expect([first.status, second.status]).toEqual([201, 201])
  expect(await answer(second)).toEqual(await answer(first))
  expect((await call('POST', '', { name: 'other' }, headers)).status).toBe(409)
})

test('a deleted branch is shown until its name is used again', async () => {
  await call('POST', '', { name: 'dev' })
  await commitToTestBranch(database.sql, 'dev', 'flights')
  expect((await call('DELETE', '/dev')).status).toBe(204)
  expect(await answer(call('GET', '/dev'))).toMatchObject({ status: 'deleted', tables_changed: 1 })
  expect((await call('DELETE', '/dev')).status).toBe(404)
  expect((await call('GET', '/dev/commits')).status).toBe(404)
  expect((await call('POST', '', { name: 'x', from: 'dev' })).status).toBe(404)
  expect(await answer(call('GET', '?status=deleted'))).toMatchObject({ total: 1 })
  expect((await call('POST', '', { name: 'dev' })).status).toBe(201)
  expect(await answer(call('GET', '/dev'))).toMatchObject({
    status: 'open',
    tables_changed: 0,
    commits_ahead: 0,
  })
  expect(await database.sql`select from lake_content`).toHaveLength(0)
})

test('a branch with unfinished runs is neither deleted nor closed after its expiry', async () => {
  await call('POST', '', { name: 'dev', expires_in_hours: 1 })
  const { request, runs } = await addPipeline(database.sql, 'flights', { landingZones: [], nudge: () => {} })
  const id = await request('manual', 'dev')
  expect(await errorOf(await call('DELETE', '/dev'))).toEqual([409, 'FAILED_PRECONDITION'])
  await database.sql`update lake_ref set expires_at = expires_at - interval '2 hours' where name = 'dev'`
  await expireLakeHistory(await reapingNow(database.sql))
  expect(await answer(call('GET', '/dev'))).toMatchObject({ status: 'open' })
  await runs.cancel(id)
  await expireLakeHistory(await reapingNow(database.sql))
  expect(await answer(call('GET', '/dev'))).toMatchObject({ status: 'deleted' })
})

test('a run is not requested on a branch that is being deleted', async () => {
  const { request } = await addPipeline(database.sql, 'raced', { landingZones: [], nudge: () => {} })
  for (let round = 0; round < 8; round++) {
    await call('POST', '', { name: 'dev' })
    const [deleted, requested] = await Promise.allSettled([call('DELETE', '/dev'), request('manual', 'dev')])
    const isDeleted = deleted.status === 'fulfilled' && deleted.value.status === 204
    expect(isDeleted).toBe(requested.status === 'rejected')
    await database.sql`update run set status = 'cancelled', waiting = false where branch = 'dev'`
    if (!isDeleted) expect((await call('DELETE', '/dev')).status).toBe(204)
  }
})

test('main cannot be deleted, and an absent branch is 404', async () => {
  expect(await errorOf(await call('DELETE', '/main'))).toEqual([403, 'AUTHORIZATION'])
  expect(await errorOf(await call('DELETE', '/absent'))).toEqual([404, 'NOT_FOUND'])
  expect(await errorOf(await call('GET', '/absent'))).toEqual([404, 'NOT_FOUND'])
})

test('the reaper closes a branch after its expiry', async () => {
  await call('POST', '', { name: 'short', expires_in_hours: 1 })
  await call('POST', '', { name: 'long', expires_in_hours: 3 })
  await database.sql`update lake_ref set expires_at = expires_at - interval '2 hours'`
  await expireLakeHistory(await reapingNow(database.sql))
  const { branches } = (await answer(call('GET', ''))) as { branches: { name: string }[] }
  expect(branches.map(({ name }) => name)).toEqual(['main', 'long'])
})

test('a tag keeps its commit and shares the names of branches', async () => {
  const tags = (method: string, path: string, body?: object) =>
    requestTo(app, method, `/api/v1/tags${path}`, body)
  await commitToMain('flights')
  await commitToMain('flights')
  expect((await call('POST', '', { name: 'dev' })).status).toBe(201)
  const created = await tags('POST', '', { name: 'early', as_of: 1 })
  expect(created.status).toBe(201)
  expect(await answer(tags('GET', ''))).toEqual({ tags: [await answer(created)], total: 1 })
  expect(await answer(call('POST', '', { name: 'again', as_of: 'early' }))).toMatchObject({ base_commit: 1 })
  for (const [name, status] of [
    ['early', 409],
    ['dev', 409],
    ['run-1', 400],
  ] as const)
    expect([name, (await tags('POST', '', { name })).status]).toEqual([name, status])
  expect((await tags('POST', '', { name: 'late', as_of: 9 })).status).toBe(404)
  expect((await call('DELETE', '/early')).status).toBe(404)
  expect((await tags('DELETE', '/dev')).status).toBe(404)
  expect((await tags('DELETE', '/early')).status).toBe(204)
  expect((await tags('DELETE', '/early')).status).toBe(404)
})

const ANN = { name: 'ann', isAdmin: false }
const BOB = { name: 'bob', isAdmin: false }
const ROOT = { name: 'root', isAdmin: true }

test('a user opens a tenth of all branches, and others still open theirs', async () => {
  const branches = makeBranchService(database)
  const open = (name: string, caller: typeof ANN) => branches.create({ name }, caller, null)
  await database.sql`
    insert into lake_ref (name, kind, state, base, created_by)
    select 'ann-' || n, 'user', 'open', 0, 'ann' from generate_series(1, 98) n`
  const answers = await Promise.allSettled(
    Array.from({ length: 4 }, (_, place) => open(`more-${place}`, ANN)),
  )
  expect(answers.map(({ status }) => status).sort()).toEqual([
    'fulfilled',
    'fulfilled',
    'rejected',
    'rejected',
  ])
  await expect(open('next', ANN)).rejects.toMatchObject({
    status: 409,
    message: 'user ann has 100 open branches, and the limit of one user is 100: delete or merge one',
  })
  await open('of-bob', BOB)
  await branches.remove('ann-1', ANN)
  await open('again', ANN)
})

test('an administrator opens branches up to the limit of all users', async () => {
  await database.sql`
    insert into lake_ref (name, kind, state, base, created_by)
    select 'root-' || n, 'user', 'open', 0, 'root' from generate_series(1, 999) n`
  const branches = makeBranchService(database)
  await branches.create({ name: 'last' }, ROOT, null)
  await expect(branches.create({ name: 'next' }, ROOT, null)).rejects.toMatchObject({
    message: '1000 open branches exist, and the limit of all users is 1000: delete or merge one',
  })
})

test('a user keeps a tenth of all tags', async () => {
  const tags = makeTagService(database)
  await database.sql`
    insert into lake_ref (name, kind, state, base, created_by)
    select 'ann-' || n, 'tag', 'open', 0, 'ann' from generate_series(1, 100) n`
  await expect(tags.create({ name: 'next' }, ANN, null)).rejects.toMatchObject({
    status: 409,
    message: 'user ann has 100 tags, and the limit of one user is 100: delete one',
  })
  await tags.create({ name: 'of-bob' }, BOB, null)
  await tags.create({ name: 'of-root' }, ROOT, null)
})

/** Sets the opening and all commits of a branch back in time. */
const age = async (name: string, days: number) => {
  const { sql } = database
  await sql`update lake_ref set created_at = created_at - ${days} * interval '1 day' where name = ${name}`
  await sql`update lake_commit set created_at = created_at - ${days} * interval '1 day' where ref = ${name}`
}
const idleOnes = async () => {
  const { branches } = await answer<{ branches: { name: string; is_idle: boolean }[] }>(call('GET', ''))
  return branches.filter(({ is_idle }) => is_idle).map(({ name }) => name)
}

test('an open branch without a change for 30 days is idle', async () => {
  await commitToMain('flights')
  for (const name of ['quiet', 'recent', 'committed', 'rebased', 'closed']) await call('POST', '', { name })
  for (const name of ['main', 'quiet', 'committed', 'rebased', 'closed']) await age(name, 31)
  await age('recent', 29)
  await commitToTestBranch(database.sql, 'committed', 'delays')
  await commitToMain('flights')
  await call('POST', '/rebased/rebase')
  await call('DELETE', '/closed')
  expect(await idleOnes()).toEqual(['quiet'])
  await commitToTestBranch(database.sql, 'quiet', 'delays')
  expect(await idleOnes()).toEqual([])
})

test('idle branches expire only with BRANCH_MAX_IDLE_DAYS, and never with unfinished runs', async () => {
  const { sql } = database
  for (const name of ['idle', 'used', 'fresh']) await call('POST', '', { name })
  for (const name of ['main', 'idle', 'used']) await age(name, 11)
  await sql`insert into lake_ref (name, kind, state, base) values ('kept-tag', 'tag', 'open', 0)`
  await age('kept-tag', 11)
  const { request, runs } = await addPipeline(sql, 'idle-flights', { landingZones: [], nudge: () => {} })
  const id = await request('manual', 'used')
  const open = async () => {
    const { branches } = await answer<{ branches: { name: string }[] }>(call('GET', ''))
    return branches.map(({ name }) => name)
  }
  const reap = async (branchMaxIdleDays: number | null) =>
    expireLakeHistory({ ...(await reapingNow(sql)), branchMaxIdleDays })
  for (const days of [null, 12]) {
    await reap(days)
    expect(await open()).toEqual(['main', 'fresh', 'idle', 'used'])
  }
  await reap(10)
  expect(await open()).toEqual(['main', 'fresh', 'used'])
  await runs.cancel(id)
  await reap(10)
  expect(await open()).toEqual(['main', 'fresh'])
  expect(await sql`select from lake_ref where kind = 'tag'`).toHaveLength(1)
})
