import { beforeEach, expect, test } from 'bun:test'
import fc from 'fast-check'
import type { SqlTx } from '../../drizzle/client.ts'
import { useDatabase } from '../../tools/service/database.ts'
import { newId } from '../core/ids.ts'
import {
  closeBranches,
  findBranch,
  headOfMain,
  type MergeOutcome,
  mergeBranches,
  openBranches,
} from './store/branches.ts'
import { catalogAt, changesSince, tableAt, tablesIn } from './store/tables.ts'
import { commitToTestBranch } from './test-rows.ts'

const database = useDatabase({ rawConnections: 8 })
beforeEach(emptyCatalog)

async function emptyCatalog() {
  await database.sql`truncate lake_ref, lake_commit, main_entry, branch_entry, lake_content`
  await database.sql`insert into lake_ref (name, state, number) values ('main', 'open', 0)`
}

const tableNamed = (name: string) => ({ namespace: 'default', layer: 'gold' as const, name })

const open = (branch: string, base: number) =>
  database.sql.begin((tx) => openBranches(tx, [{ branch, base, runId: newId(), attempt: 1 }]))

const commit = (branch: string, table: string, from?: string | null) =>
  commitToTestBranch(database.sql, branch, table, from)

const merge = (requests: { branch: string; testedCommit: string }[]) =>
  database.sql.begin((tx) =>
    mergeBranches(
      tx,
      requests.map((request) => ({ ...request, runId: newId(), message: 'a run' })),
    ),
  )

/** Opens a branch, commits to one table, and returns the input of a merge. */
async function prepared(branch: string, table: string, base = 0) {
  await open(branch, base)
  const { id, contentId } = await commit(branch, table)
  return { branch, testedCommit: id, contentId }
}

const contentsOf = (tables: { name: string; contentId: string }[]) =>
  Object.fromEntries(tables.map((table) => [table.name, table.contentId]))

test('main shows the changes of a branch from its merge commit on', async () => {
  const branch = await prepared('run-a', 'flights')
  const outcomes = await merge([branch])
  expect(outcomes.get('run-a')).toEqual({ kind: 'merged', commit: 1, base: 0 })
  expect(await headOfMain(database.sql)).toBe(1)
  expect(await tableAt(database.sql, 0, tableNamed('flights'))).toBeNull()
  expect(await tableAt(database.sql, 1, tableNamed('flights'))).toEqual({
    ...tableNamed('flights'),
    contentId: branch.contentId,
    kind: 'table',
    metadataLocation: `s3://sluice/${branch.contentId}`,
    columns: [{ name: 'a', type: 'BIGINT' }],
    rowCount: 3,
    sizeBytes: 2 ** 40,
  })
  expect((await findBranch(database.sql, 'run-a'))?.state).toBe('merged')
})

test('only the first branch of a table merges; numbers stay consecutive', async () => {
  const batch = [
    await prepared('a', 'flights'),
    await prepared('b', 'flights'),
    await prepared('c', 'airports'),
  ]
  expect([...(await merge(batch)).values()]).toEqual([
    { kind: 'merged', commit: 1, base: 0 },
    { kind: 'conflict', table: 'default.gold.flights' },
    { kind: 'merged', commit: 2, base: 0 },
  ])
})

test('closed, merged, unknown and empty branches are stale, and so is main', async () => {
  const closed = await prepared('closed', 'flights')
  await database.sql.begin((tx) => closeBranches(tx, ['closed']))
  const merged = await prepared('merged', 'airports')
  await merge([merged])
  await open('untouched', 0)
  const testedCommit = newId()
  const others = ['untouched', 'unknown', 'main'].map((branch) => ({ branch, testedCommit }))
  expect([...(await merge([closed, merged, ...others])).values()]).toEqual([
    { kind: 'stale', why: 'the branch is deleted' },
    { kind: 'stale', why: 'the branch is merged' },
    { kind: 'stale', why: 'the branch has no commit' },
    { kind: 'stale', why: 'the branch does not exist' },
    { kind: 'stale', why: 'the branch does not exist' },
  ])
})

test('only one of several commits from the same head is accepted', async () => {
  await open('run-a', 0)
  const racing = await Promise.all(Array.from({ length: 6 }, () => commit('run-a', 'flights', null)))
  expect(racing.filter((attempt) => attempt.committed)).toHaveLength(1)
  const head = racing.find((attempt) => attempt.committed)?.id ?? ''
  expect((await commit('run-a', 'flights', head)).committed).toBe(true)
  expect((await commit('run-a', 'flights', head)).committed).toBe(false)
  const counts = await database.sql`
    select (select count(*) from lake_content) as contents, (select count(*) from lake_commit) as commits`
  expect({ ...counts[0] }).toEqual({ contents: '2', commits: '2' })
})

test('changes since a commit contain new, replaced and dropped tables', async () => {
  await merge([await prepared('a', 'flights'), await prepared('b', 'airports')])
  await merge([await prepared('c', 'flights', 2)])
  await merge([await prepared('d', 'routes', 3)])
  const { tables, dropped } = await changesSince(database.sql, { commit: 4, since: 2 })
  expect(tables.map((table) => table.name)).toEqual(['flights', 'routes'])
  expect(dropped).toEqual([])
  // No operation drops a table yet, so the test ends its entry with SQL.
  await database.sql`update main_entry set to_commit = 4 where name = 'airports'`
  expect((await changesSince(database.sql, { commit: 4, since: 2 })).dropped).toEqual([
    tableNamed('airports'),
  ])
  expect((await changesSince(database.sql, { commit: 4, since: 4 })).dropped).toEqual([])
})

test('parallel merges of different tables all succeed with consecutive numbers', async () => {
  const batches = await Promise.all(
    Array.from({ length: 8 }, (_, at) =>
      Promise.all([prepared(`${at}-x`, `table-${at}-x`), prepared(`${at}-y`, `table-${at}-y`)]),
    ),
  )
  const outcomes = (await Promise.all(batches.map(merge))).flatMap((outcome) => [...outcome.values()])
  const numbers = outcomes.map((outcome) => (outcome.kind === 'merged' ? outcome.commit : 0))
  expect(numbers.sort((a, b) => a - b)).toEqual(Array.from({ length: 16 }, (_, at) => at + 1))
  expect(await catalogAt(database.sql, 16)).toHaveLength(16)
})

test('exactly one of several parallel merges of one table succeeds', async () => {
  const branches = await Promise.all(Array.from({ length: 8 }, (_, at) => prepared(`run-${at}`, 'flights')))
  const outcomes = (await Promise.all(branches.map((branch) => merge([branch])))).flatMap((outcome) => [
    ...outcome.values(),
  ])
  expect(outcomes.filter((outcome) => outcome.kind === 'merged')).toHaveLength(1)
  expect(outcomes.filter((outcome) => outcome.kind === 'conflict')).toHaveLength(7)
})

test('a concurrent merge and close leave a branch either merged or closed', async () => {
  for (let round = 0; round < 10; round++) {
    const branch = await prepared(`run-${round}`, `table-${round}`)
    const [merged, closed] = await Promise.all([
      merge([branch]),
      database.sql.begin((tx) => closeBranches(tx, [branch.branch])),
    ])
    expect(merged.get(branch.branch)?.kind === 'merged').toBe(closed.length === 0)
  }
})

test('a merge that its transaction rolls back leaves no trace', async () => {
  const branch = await prepared('run-a', 'flights')
  const failing = database.sql.begin(async (tx) => {
    await mergeBranches(tx, [{ ...branch, runId: newId(), message: 'a run' }])
    throw new Error('the run could not be ended')
  })
  await expect(failing).rejects.toThrow('the run could not be ended')
  expect(await headOfMain(database.sql)).toBe(0)
  expect((await merge([branch])).get('run-a')).toEqual({ kind: 'merged', commit: 1, base: 0 })
})

test('concurrent workers on few tables lose no update', async () => {
  const worker = async (name: string) => {
    for (let turn = 0; turn < 15; turn++) {
      const branch = `${name}-${turn}`
      await open(branch, await headOfMain(database.sql))
      await commit(branch, `t${turn % 2}`)
      const { id } = await commit(branch, `t${(turn + name.length) % 3}`)
      if (turn % 5 === 4) await database.sql.begin((tx) => closeBranches(tx, [branch]))
      await merge([{ branch, testedCommit: id }])
    }
  }
  await Promise.all(['a', 'bb', 'ccc', 'dddd'].map(worker))
  // Each state of a table on main must be computed from the state it replaced.
  const states = await database.sql<{ name: string; base: string | null; replaced: string | null }[]>`
    select main.name, own.base_content as base,
      lag(main.content_id) over (partition by main.name order by main.from_commit) as replaced
    from main_entry main join branch_entry own on own.content_id = main.content_id`
  expect(states.length).toBeGreaterThan(4)
  expect(states.filter((state) => state.base !== state.replaced)).toEqual([])
  const head = await headOfMain(database.sql)
  const [numbers] =
    await database.sql`select count(*), min(number), max(number) from lake_commit where number is not null`
  expect(numbers).toEqual({ count: String(head), min: '1', max: String(head) })
})

test('a batch of any size merges with the same number of statements', async () => {
  let statements = 0
  const counted = (tx: SqlTx): SqlTx =>
    new Proxy(tx, {
      apply: (target, self, args) => {
        statements += 1
        return Reflect.apply(target, self, args)
      },
    })
  const statementsOf = async (batch: { branch: string; testedCommit: string }[]) => {
    statements = 0
    const requests = batch.map((request) => ({ ...request, runId: newId(), message: 'a run' }))
    await database.sql.begin((tx) => mergeBranches(counted(tx), requests))
    return statements
  }
  const ofOne = await statementsOf([await prepared('one', 'table-one')])
  const many = await Promise.all(Array.from({ length: 64 }, (_, at) => prepared(`run-${at}`, `table-${at}`)))
  expect(await statementsOf(many)).toBe(ofOne)
  expect(await headOfMain(database.sql)).toBe(65)
})

/** An in-memory model of the catalog's rules. Branches and tables are small numbers. */
class Model {
  main: Map<string, string>[] = [new Map()]
  branches: {
    base: number
    state: string
    head: string | null
    entries: Map<string, string>
  }[] = []

  merge(batch: { at: number; testedCommit: string }[]): MergeOutcome['kind'][] {
    return batch.map(({ at, testedCommit }) => {
      const branch = this.branches[at]
      if (branch?.state !== 'open' || branch.head !== testedCommit) return 'stale'
      const live = this.main.at(-1)
      const then = this.main[branch.base]
      for (const table of branch.entries.keys()) if (live?.get(table) !== then?.get(table)) return 'conflict'
      this.main.push(new Map([...(live ?? []), ...branch.entries]))
      branch.state = 'merged'
      return 'merged'
    })
  }
}

const action = fc.oneof(
  fc.record({ kind: fc.constant('open' as const), back: fc.nat(2) }),
  {
    weight: 4,
    arbitrary: fc.record({ kind: fc.constant('commit' as const), branch: fc.nat(), table: fc.nat(3) }),
  },
  fc.record({ kind: fc.constant('close' as const), branch: fc.nat() }),
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant('merge' as const),
      branches: fc.array(fc.record({ branch: fc.nat(), outdated: fc.nat(9) }), {
        minLength: 1,
        maxLength: 4,
      }),
    }),
  },
)

test(
  'every random history of branch operations agrees with the model',
  () =>
    fc.assert(
      fc.asyncProperty(fc.array(action, { minLength: 10, maxLength: 40 }), async (actions) => {
        await emptyCatalog()
        const model = new Model()
        for (const step of actions) {
          if (step.kind === 'open' || model.branches.length === 0) {
            const base = Math.max(0, model.main.length - 1 - (step.kind === 'open' ? step.back : 0))
            await open(`run-${model.branches.length}`, base)
            model.branches.push({ base, state: 'open', head: null, entries: new Map() })
            continue
          }
          const chosen = (at: number) => at % model.branches.length
          if (step.kind === 'commit') {
            const branch = model.branches[chosen(step.branch)]
            const { id, contentId, committed } = await commit(`run-${chosen(step.branch)}`, `t${step.table}`)
            expect(committed).toBe(branch?.state === 'open')
            if (branch && committed) {
              branch.head = id
              branch.entries.set(`t${step.table}`, contentId)
            }
          } else if (step.kind === 'close') {
            const at = chosen(step.branch)
            const branch = model.branches[at]
            const closed = await database.sql.begin((tx) => closeBranches(tx, [`run-${at}`]))
            expect(closed).toEqual(branch?.state === 'open' ? [`run-${at}`] : [])
            if (branch?.state === 'open') branch.state = 'deleted'
          } else {
            const batch = [...new Map(step.branches.map((one) => [chosen(one.branch), one])).entries()].map(
              ([at, { outdated }]) => ({
                at,
                testedCommit: (outdated > 0 && model.branches[at]?.head) || newId(),
              }),
            )
            const outcomes = await merge(
              batch.map(({ at, testedCommit }) => ({ branch: `run-${at}`, testedCommit })),
            )
            expect([...outcomes.values()].map((outcome) => outcome.kind)).toEqual(model.merge(batch))
          }
        }
        await expectAgreement(model)
      }),
      { numRuns: 30 },
    ),
  60_000,
)

async function expectAgreement(model: Model) {
  expect(await headOfMain(database.sql)).toBe(model.main.length - 1)
  for (const [number, tables] of model.main.entries())
    expect(contentsOf(await catalogAt(database.sql, number))).toEqual(Object.fromEntries(tables))
  for (const [at, { base, entries }] of model.branches.entries()) {
    const seen = new Map([...(model.main[base] ?? []), ...entries])
    expect(contentsOf(await tablesIn(database.sql, { commit: base, branch: `run-${at}` }))).toEqual(
      Object.fromEntries(seen),
    )
  }
  const numbers = await database.sql`
    select number from lake_commit where number is not null order by number`
  expect(numbers.map((row) => Number(row.number))).toEqual(model.main.slice(1).map((_, at) => at + 1))
}
