// Writers, tags, branches, maintenance and expiry in a random order. Every state that something keeps stays readable.
import { expect, test } from 'bun:test'
import { openUserBranch } from './branches.ts'
import { headOfMain } from './store/branches.ts'
import { mergeMaintenance, openMaintenance } from './store/maintenance.ts'
import { agingLake, newId, type SomeTable } from './test-aging-lake.ts'

const { lake, someTable, age, tick } = agingLake()
const SEEDS = [20_261_123, 7]

function randomOf(start: number) {
  let seed = start
  return (below: number) => {
    seed = (Math.imul(seed, 1_103_515_245) + 12_345) & 0x7fffffff
    return Math.floor((seed / 0x80000000) * below)
  }
}

/** Combines the files of a table on its own branch, and merges the branch as the reaper does. */
async function maintain({ table }: SomeTable): Promise<string | null> {
  const { sql } = lake.catalog
  const { runId, branch, compact } = await lake.catalog.attempt(table)
  await sql`delete from lake_ref where name = ${branch}`
  const work = { runId, branch, table }
  await sql.begin((tx) => openMaintenance(tx, work))
  const { commit } = await compact()
  return sql.begin((tx) => mergeMaintenance(tx, work, { commit, message: 'maintenance' }))
}

test.each(SEEDS)('every kept state reads the same rows after any tick (seed %d)', async (seed) => {
  const { sql } = lake.catalog
  const random = randomOf(seed)
  const tables = await Promise.all([1, 2].map(() => someTable()))
  const expected = new Map<SomeTable, unknown[]>()
  /** Tags and branches: the commit of main that each keeps, and the rows at that commit. */
  const kept: { base: number; rows: Map<SomeTable, unknown[]> }[] = []
  let [maintained, removed] = [0, 0]

  const rowsAt = async ({ table }: SomeTable, commit: number): Promise<unknown[]> => {
    const { token, client } = await lake.catalog.reader(commit)
    const { metadata } = await client.loadTable({
      namespace: [table.namespace, table.layer],
      name: table.name,
    })
    return lake.catalog.rows(token, metadata)
  }
  const check = async (step: number) => {
    for (const [table, rows] of expected)
      expect({ seed, step, rows: await table.rows() }).toEqual({ seed, step, rows })
    for (const { base, rows: then } of kept)
      for (const [table, rows] of then)
        expect({ seed, step, base, rows: await rowsAt(table, base) }).toEqual({
          seed,
          step,
          base,
          rows: rows as never,
        })
  }

  for (let step = 0; step < 40; step++) {
    const chosen = tables[random(tables.length)]
    if (chosen === undefined) throw new Error('there are tables')
    const known = expected.get(chosen)
    switch (random(5)) {
      case 0:
      case 1: {
        const operation = known !== undefined && random(3) > 0 ? 'append' : 'overwrite'
        await chosen.write(`select ${step} as a`, operation)
        expected.set(chosen, [...(operation === 'append' ? (known ?? []) : []), { a: step }])
        break
      }
      case 2:
        if (known !== undefined && (await maintain(chosen)) === null) maintained += 1
        break
      case 3: {
        const base = await headOfMain(sql)
        const kind = random(2) === 0 ? 'tag' : 'user'
        const name = `kept-${step}-${newId().slice(0, 8)}`
        await sql.begin((tx) =>
          openUserBranch(tx, {
            name,
            kind,
            base,
            from: null,
            description: '',
            createdBy: null,
            expiresInHours: null,
          }),
        )
        kept.push({ base, rows: new Map(expected) })
        break
      }
      case 4:
        await age([1, 4, 8][random(3)] ?? 1)
        removed += (await tick()).lakeFilesRemoved
        await check(step)
    }
  }
  await check(40)
  expect(maintained).toBeGreaterThan(2)
  expect(removed).toBeGreaterThan(0)
})
