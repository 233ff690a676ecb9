import { beforeEach, expect, setDefaultTimeout, test } from 'bun:test'
import { useDatabase } from '../../tools/service/database.ts'
import { requestTo, testApp } from '../composition/test-app.ts'
import { type Access, UNLIMITED } from '../core/access.ts'
import { newId } from '../core/ids.ts'
import type { Gate, Judgement } from '../quality-tests/gate.ts'
import { mergeBranches, openBranches } from '../versions/store/branches.ts'
import { commitToTestBranch, openTestBranch } from '../versions/test-rows.ts'
import { tablesIn, viewOf } from '../versions/views.ts'
import type { MergeDeps, Merger } from './merges.ts'
import { branchRoutes } from './routes.ts'
import { makeBranchService } from './service.ts'
import { ADA, mergesOf } from './test-merges.ts'

setDefaultTimeout(60_000)
const database = useDatabase({ rawConnections: 8 })
beforeEach(async () => {
  await database.sql`truncate lake_ref, lake_commit, main_entry, branch_entry, lake_content, run`
  await database.sql`insert into lake_ref (name, kind, state, number) values ('main', 'main', 'open', 0)`
})

const resultOf = (table: string, status: 'passed' | 'failed'): Judgement['results'][number] => ({
  table,
  name: 'no-nulls',
  status,
  severity: 'error',
  value: status === 'failed' ? 2 : 0,
  expected: 0,
  duration_ms: 1,
  error: null,
  samples: [],
})
const merges = (gate?: Gate, more?: Partial<MergeDeps>) => mergesOf(database.sql, gate, more)
const head = async () =>
  Number((await database.sql`select number from lake_ref where name = 'main'`)[0]?.number)
const open = async (name: string) => {
  const base = await head()
  await database.sql.begin((tx) => openTestBranch(tx, name, base))
}
const change = async (branch: string, table: string) =>
  (await commitToTestBranch(database.sql, branch, table)).contentId
async function changeMain(table: string) {
  const runId = newId()
  const opening = { branch: `run-${runId}-1`, base: await head(), runId, attempt: 1 }
  await database.sql.begin((tx) => openBranches(tx, [opening]))
  const { id, contentId } = await commitToTestBranch(database.sql, opening.branch, table)
  await database.sql.begin((tx) => mergeBranches(tx, [{ ...opening, testedCommit: id, message: 'a run' }]))
  return contentId
}
const contents = async (branch?: string) =>
  Object.fromEntries(
    (await tablesIn(database.sql, await viewOf(database.sql, { branch }))).map((t) => [t.name, t.contentId]),
  )
const stateOf = async (name: string) =>
  (await database.sql`select state from lake_ref where name = ${name}`)[0]?.state

test('a merge is one commit of main with all tables of the branch', async () => {
  const kept = await changeMain('kept')
  await open('dev')
  const [a, b] = [await change('dev', 'a'), await change('dev', 'b')]
  const app = testApp({ api: [branchRoutes(makeBranchService(database), merges().service)] })
  const merge = (body?: object) => requestTo(app, 'POST', '/api/v1/branches/dev/merge', body)
  const merged = await merge({ message: 'both' })
  expect([merged.status, await merged.json()]).toEqual([
    200,
    { status: 'merged', commit: 2, tables: ['default.gold.a', 'default.gold.b'], published: [], drafts: [] },
  ])
  expect(await contents()).toEqual({ kept, a, b })
  const [commit] = await database.sql`select ref, message, run_id, tables from lake_commit where number = 2`
  expect(commit).toEqual({
    ref: 'dev',
    message: 'both',
    run_id: null,
    tables: ['default.gold.a', 'default.gold.b'],
  })
  expect(await stateOf('dev')).toBe('merged')
  expect((await merge()).status).toBe(404)
  await open('dev')
  expect((await merge()).status).toBe(200)
})

test('a branch without changes stays open', async () => {
  await changeMain('a')
  await open('dev')
  await changeMain('a')
  expect(await merges().merge('dev')).toMatchObject({ status: 'unchanged', commit: 2, tables: [] })
  expect(await stateOf('dev')).toBe('open')
})

test('tables that changed on both sides refuse the whole merge', async () => {
  const [a, c] = [await changeMain('a'), await changeMain('c')]
  await open('dev')
  for (const table of ['a', 'b', 'new']) await change('dev', table)
  const [theirs, created] = [await changeMain('a'), await changeMain('new')]
  const app = testApp({ api: [branchRoutes(makeBranchService(database), merges().service)] })
  for (const action of ['merge', 'rebase']) {
    const refused = await requestTo(app, 'POST', `/api/v1/branches/dev/${action}`)
    expect([refused.status, await refused.json()]).toMatchObject([
      409,
      { error: { code: 'FAILED_PRECONDITION' }, conflicts: ['default.gold.a', 'default.gold.new'] },
    ])
  }
  expect(await contents()).toEqual({ a: theirs, c, new: created })
  expect([await stateOf('dev'), a]).toEqual(['open', expect.any(String)])
})

test('a failed test refuses the merge and shows all results', async () => {
  await open('dev')
  await change('dev', 'a')
  const results = [resultOf('default.gold.a', 'failed'), resultOf('default.gold.a', 'passed')]
  const app = testApp({
    api: [branchRoutes(makeBranchService(database), merges(async () => ({ results, reads: [] })).service)],
  })
  const refused = await requestTo(app, 'POST', '/api/v1/branches/dev/merge')
  expect([refused.status, await refused.json()]).toEqual([
    409,
    {
      error: {
        code: 'FAILED_PRECONDITION',
        type: 'CONFLICT',
        message: 'merge of branch dev refused by 1 of 2 quality tests: nothing was merged',
      },
      results,
    },
  ])
  expect([await contents(), await stateOf('dev'), await head()]).toEqual([{}, 'open', 0])
})

test('a merge is tested again when main changed a table that its tests read', async () => {
  await changeMain('read')
  await open('dev')
  await change('dev', 'a')
  const tested: number[] = []
  const gate: Gate = async (_, { commit, branch }) => {
    tested.push(commit)
    expect(branch).toBe('dev')
    // The third test is the first during which no table of the tests changes.
    await changeMain(tested.length === 1 ? 'read' : tested.length === 2 ? 'absent' : 'other')
    return {
      results: [resultOf('default.gold.a', 'passed')],
      reads: ['default.gold.a', 'default.gold.read', 'default.gold.absent'],
    }
  }
  expect(await merges(gate).merge('dev')).toMatchObject({ status: 'merged', commit: 5 })
  expect(tested).toEqual([1, 2, 3])
})

test('a merge is tested at most 5 times while its branch changes', async () => {
  await open('dev')
  await change('dev', 'a')
  let tests = 0
  const changing: Gate = async () => {
    tests += 1
    await change('dev', tests === 1 ? 'b' : 'a')
    return { results: [], reads: [] }
  }
  await expect(merges(changing).merge('dev')).rejects.toMatchObject({
    status: 409,
    code: 'FAILED_PRECONDITION',
  })
  expect([tests, await head()]).toEqual([5, 0])
  const once: Gate = async (tables) => {
    tests += 1
    if (tests === 6) await change('dev', 'c')
    return { results: [], reads: tables.map(({ name }) => `default.gold.${name}`) }
  }
  const merged = await merges(once).merge('dev')
  expect([tests, merged.tables]).toEqual([7, ['default.gold.a', 'default.gold.b', 'default.gold.c']])
})

test('a branch that is deleted during its tests is not merged', async () => {
  await open('dev')
  await change('dev', 'a')
  const gate: Gate = async () => {
    await makeBranchService(database).remove('dev', ADA)
    return { results: [], reads: [] }
  }
  await expect(merges(gate).merge('dev')).rejects.toMatchObject({ status: 404 })
  expect([await head(), await stateOf('dev')]).toEqual([0, 'deleted'])
})

test('one of many concurrent merges of a branch succeeds', async () => {
  await open('dev')
  await change('dev', 'a')
  const results = await Promise.allSettled(Array.from({ length: 8 }, () => merges().merge('dev')))
  expect(results.filter(({ status }) => status === 'fulfilled')).toHaveLength(1)
  expect(results.filter((r) => r.status === 'rejected' && r.reason.status === 404)).toHaveLength(7)
  expect(await head()).toBe(1)
})

test('concurrent merges of branches that changed one table merge one of them', async () => {
  const names = Array.from({ length: 6 }, (_, n) => `dev-${n}`)
  for (const name of names) await open(name)
  for (const name of names) await change(name, 'shared')
  const results = await Promise.allSettled(names.map((name) => merges().merge(name)))
  expect(results.filter(({ status }) => status === 'fulfilled')).toHaveLength(1)
  expect(await head()).toBe(1)
  expect(await database.sql`select from lake_ref where state = 'merged'`).toHaveLength(1)
})

test('no transaction is open while the tests are evaluated', async () => {
  await open('dev')
  await change('dev', 'a')
  const gate: Gate = async () => {
    const busy = await database.sql`
      select from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()
        and state like 'idle in transaction%'`
    expect(busy).toHaveLength(0)
    return { results: [], reads: [] }
  }
  expect(await merges(gate).merge('dev')).toMatchObject({ status: 'merged' })
})

test('a rebase moves the base and shows the tables of main', async () => {
  const first = await changeMain('a')
  await open('dev')
  const own = await change('dev', 'b')
  const a = await changeMain('a')
  expect(await contents('dev')).toEqual({ a: first, b: own })
  const app = testApp({ api: [branchRoutes(makeBranchService(database), merges().service)] })
  const rebased = await requestTo(app, 'POST', '/api/v1/branches/dev/rebase')
  expect([rebased.status, await rebased.json()]).toMatchObject([
    200,
    { base_commit: 2, commits_behind: 0, tables_changed: 1 },
  ])
  expect(await contents('dev')).toEqual({ a, b: own })
  expect(await merges().merge('dev')).toMatchObject({ commit: 3 })
  for (const name of ['dev', 'absent'])
    await expect(merges().rebase(name)).rejects.toMatchObject({ status: 404 })
})

test('main and a branch with unfinished runs are not merged', async () => {
  for (const refused of [merges().merge('main'), merges().rebase('main')])
    await expect(refused).rejects.toMatchObject({ status: 403 })
  await open('dev')
  await change('dev', 'a')
  await database.sql`
    insert into run (id, pipeline_id, namespace, layer, pipeline, pipeline_type, trigger, branch, pins, landing_zones,
      snapshot, machine_version, status)
    values (${newId()}, ${newId()}, 'default', 'gold', 'a', 'sql', 'manual', 'dev', '{}', '[]', '{}', 1, 'running')`
  await expect(merges().merge('dev')).rejects.toMatchObject({ code: 'FAILED_PRECONDITION' })
})

test('a merge needs write on every changed table', async () => {
  await open('dev')
  for (const table of ['mine', 'theirs']) await change('dev', table)
  const resources: MergeDeps['resources'] = {
    table: async ({ namespace, name }) => ({ type: 'pipeline', id: name, namespace, owner: null }),
  }
  const writable = new Set(['mine'])
  const access: Access = {
    ...UNLIMITED,
    isAdmin: false,
    may: async ({ id }, permission) => permission === 'write' && writable.has(id),
  }
  const user: Merger = { ...ADA, isAdmin: false, access }
  let tests = 0
  const gate: Gate = async () => {
    tests += 1
    return { results: [], reads: [] }
  }
  const merge = () => merges(gate, { resources }).merge('dev', user)
  await expect(merge()).rejects.toMatchObject({ status: 403 })
  expect(tests).toBe(0)
  writable.add('theirs')
  expect(await merge()).toMatchObject({ status: 'merged' })
  await open('other')
  await expect(merges().rebase('other', user)).rejects.toMatchObject({ status: 403 })
})
