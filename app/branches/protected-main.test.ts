import { beforeEach, expect, setDefaultTimeout, test } from 'bun:test'
import { useDatabase } from '../../tools/service/database.ts'
import { UNLIMITED } from '../core/access.ts'
import { lockedBranch, openUserBranch } from '../versions/store/user-branches.ts'
import { commitToTestBranch, openTestBranch } from '../versions/test-rows.ts'
import { ADA, mergesOf } from './test-merges.ts'

setDefaultTimeout(60_000)
const database = useDatabase({ rawConnections: 4 })
beforeEach(async () => {
  await database.sql`truncate lake_ref, lake_commit, main_entry, branch_entry, lake_content, run, pipeline cascade`
  await database.sql`insert into lake_ref (name, kind, state, number) values ('main', 'main', 'open', 0)`
  await protectNamespace('none')
})

const protectNamespace = (review: string) =>
  database.sql`update namespace set protection = ${database.sql.json({ review })} where name = 'default'`
/** A published pipeline with a rule for its table. */
const protectTable = (name: string, review: string) => database.sql`
  insert into pipeline (id, namespace, layer, name, type, draft_snapshot, draft_machine_version, draft_dirty, review)
  values (gen_random_uuid(), 'default', 'gold', ${name}, 'sql', '{}', 1, false, ${review})`

/** A branch that these people changed. */
async function changed(branch: string, authors: readonly string[], table = 'orders') {
  await database.sql.begin((tx) => openTestBranch(tx, branch, 0))
  await commitToTestBranch(database.sql, branch, table)
  await database.sql`update lake_ref set authors = ${authors as string[]}::text[] where name = ${branch}`
}
const as = (person: string | null) => ({ ...ADA, name: person, access: { ...UNLIMITED, person } })
const merge = (branch: string, person: string | null) => mergesOf(database.sql).merge(branch, as(person))

test('four eyes of a namespace refuse the merge by each author of the branch', async () => {
  await protectNamespace('four-eyes')
  await changed('dev', ['ann', 'bob'])
  for (const author of ['ann', 'bob'])
    await expect(merge('dev', author)).rejects.toThrow(
      `table default.gold.orders of main is protected by review: four-eyes: ${author} changed branch dev, so a user who did not change it must merge it`,
    )
  expect(await merge('dev', 'eve')).toMatchObject({ status: 'merged' })
})

test('four eyes of one changed table hold for the whole merge', async () => {
  await protectTable('orders', 'four-eyes')
  await changed('dev', ['ann'], 'items')
  await commitToTestBranch(database.sql, 'dev', 'orders')
  await expect(merge('dev', 'ann')).rejects.toThrow('default.gold.orders of main is protected')
  expect(await merge('dev', 'bob')).toMatchObject({ status: 'merged' })
})

test('the stricter rule of namespace and pipeline holds', async () => {
  await protectNamespace('four-eyes')
  await protectTable('orders', 'any')
  await changed('dev', ['ann'])
  await expect(merge('dev', 'ann')).rejects.toThrow('protected')
  await protectNamespace('any')
  expect(await merge('dev', 'ann')).toMatchObject({ status: 'merged' })
})

test('a rule that is set during the tests of a merge refuses the merge', async () => {
  await changed('dev', ['ann'])
  const raising = mergesOf(database.sql, async () => {
    await protectNamespace('four-eyes')
    return { results: [], reads: [] }
  })
  await expect(raising.merge('dev', as('ann'))).rejects.toThrow('protected')
  expect(await database.sql`select from main_entry`).toHaveLength(0)
})

test('callers that cannot be told apart merge their own branches', async () => {
  await protectNamespace('four-eyes')
  await changed('dev', [])
  expect(await merge('dev', null)).toMatchObject({ status: 'merged' })
})

test('a branch from a branch keeps its authors', async () => {
  await changed('dev', ['ann'])
  const authors = await database.sql.begin(async (tx) => {
    const from = await lockedBranch(tx, 'dev')
    await openUserBranch(tx, {
      name: 'copy',
      kind: 'user',
      base: 0,
      from,
      description: '',
      createdBy: 'bob',
      expiresInHours: null,
    })
    return (await lockedBranch(tx, 'copy'))?.authors
  })
  expect(authors).toEqual(['ann'])
})
