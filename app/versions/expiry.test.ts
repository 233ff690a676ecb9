import { describe, expect, test } from 'bun:test'
import { expireLakeHistory } from './store/history.ts'
import { agingLake } from './test-aging-lake.ts'

const { lake, someTable, age, reaping, tick, count } = agingLake()

describe('branches and history', () => {
  test('closes old branches of ended or missing runs, never of running runs', async () => {
    const { begin } = await someTable()
    const { begin: beginOther } = await someTable()
    const [ended, gone, running, young] = [
      await begin(),
      await lake.catalog.attempt({ namespace: 'default', layer: 'gold', name: 'gone' }),
      await beginOther(),
      await lake.catalog.attempt({ namespace: 'default', layer: 'gold', name: 'young' }),
    ]
    const { sql } = lake.catalog
    await sql`update run set status = 'failed', finished_at = clock_timestamp() - interval '7 hours' where id = ${ended.runId}`
    await sql`update lake_ref set created_at = created_at - interval '7 hours' where name <> 'main' and name <> ${young.branch}`
    const tickContext = await reaping()
    await expireLakeHistory(tickContext)
    const states =
      await sql`select name, state from lake_ref where name in ${sql([ended, gone, running, young].map(({ branch }) => branch))}`
    expect(new Map(states.map(({ name, state }) => [name, state]))).toEqual(
      new Map([
        [ended.branch, 'deleted'],
        [gone.branch, 'deleted'],
        [running.branch, 'open'],
        [young.branch, 'open'],
      ]),
    )
    expect(tickContext.reaped.branchesCleaned).toBeGreaterThanOrEqual(2)
    await sql`update run set status = 'failed', finished_at = clock_timestamp() where id in ${sql([running.runId])}`
    await sql`update lake_ref set state = 'deleted', closed_at = clock_timestamp() where state = 'open' and name <> 'main'`
  })

  test('keeps an old branch open when its run ended recently', async () => {
    const { begin } = await someTable()
    const attempt = await begin()
    const { sql } = lake.catalog
    await sql`update lake_ref set created_at = created_at - interval '9 hours' where name = ${attempt.branch}`
    await sql`update run set status = 'failed', finished_at = clock_timestamp() where id = ${attempt.runId}`
    await expireLakeHistory(await reaping())
    const [row] = await sql`select state from lake_ref where name = ${attempt.branch}`
    expect(row?.state).toBe('open')
    await sql`update lake_ref set state = 'deleted', closed_at = clock_timestamp() where name = ${attempt.branch}`
  })

  test('keeps the size of the history constant for any number of runs', async () => {
    const { write, begin, fail, rows } = await someTable()
    for (let n = 0; n < 5; n++) await write(`select ${n} as a`)
    await age(30)
    await tick()
    await age(30)
    await tick()
    const sizes = async () => ({
      entries: await count('main_entry'),
      contents: await count('lake_content'),
      commits: await count('lake_commit'),
      branches: await count('lake_ref'),
      branchEntries: await count('branch_entry'),
    })
    const before = await sizes()
    for (let n = 0; n < 5; n++) {
      await write(`select ${n} as a`)
      await fail(await begin())
    }
    await age(30)
    await tick()
    await age(30)
    await tick()
    expect(await sizes()).toEqual(before)
    expect(await rows()).toEqual([{ a: 4 }])
  })
})
