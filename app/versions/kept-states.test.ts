// Writers, other engines, branches, tags, restores, maintenance and expiry at the same time. Every state that something keeps
// stays readable.
import { expect, test } from 'bun:test'
import { openForeignEngine } from '../iceberg/test-foreign-engine.ts'
import { agingLake } from './test-aging-lake.ts'
import { KeptStatesScenario } from './test-kept-scenario.ts'
import { KeptStates } from './test-kept-states.ts'

const { lake, someTable, age, agedObjects, tick } = agingLake()

const ROUNDS = 12
const ACTIONS_PER_ROUND = 7
const HOURS_BETWEEN_ROUNDS = [2, 5, 5, 24, 96, 192]

function randomOf(start: number) {
  let seed = start
  return (below: number) => {
    seed = (Math.imul(seed, 1_103_515_245) + 12_345) & 0x7fffffff
    return Math.floor((seed / 0x80000000) * below)
  }
}

/** The number of each kind of action, of all seeds together. */
const done = new Map<string, number>()

test.each([
  { seed: 20_261_123, days: 7 },
  // States expire as soon as the grace of a query allows.
  { seed: 4_711, days: 0 },
])('kept states read the same rows beside any tick (seed $seed, $days days)', async ({ seed, days }) => {
  const { sql } = lake.catalog
  await sql`update retention_config set iceberg_snapshot_max_age_days = ${days},
      iceberg_orphan_file_max_age_days = ${Math.min(days, 3)}, nessie_orphan_branch_max_age_hours = ${days}`
  const [random, meets] = [randomOf(seed), randomOf(seed + 1)]
  const tables = [await someTable(), await someTable(), await someTable()]
  const views = [await someTable(), await someTable()]
  const engine = await openForeignEngine(lake.catalog)
  const states = new KeptStates(lake.catalog, engine)
  const scenario = new KeptStatesScenario({ random, tables, views, states })
  let [removed, expired] = [0, 0]
  try {
    await scenario.play(tables.map(() => scenario.write()))
    for (let round = 0; round < ROUNDS; round++) {
      const hours = HOURS_BETWEEN_ROUNDS[random(HOURS_BETWEEN_ROUNDS.length)] ?? 0
      await age(hours / 24)
      await states.pass(hours, random)
      const actions = Array.from({ length: ACTIONS_PER_ROUND }, () => scenario.action())
      const meeting = scenario.meeting(agedObjects(), meets)
      const [, reaped] = await Promise.all([scenario.play(actions), tick(meeting)])
      removed += reaped.lakeFilesRemoved
      expired += reaped.snapshotsExpired
      await states.check({ seed, round })
    }
    await states.end(0, random)
    for (const after of ['all branches', 'all history']) {
      await age(30)
      await states.pass(30 * 24, random)
      const reaped = await tick()
      removed += reaped.lakeFilesRemoved
      expired += reaped.snapshotsExpired
      await states.check({ seed, after })
    }
  } finally {
    await engine.close()
  }
  expect(removed).toBeGreaterThan(10)
  expect(expired).toBeGreaterThan(0)
  for (const [what, times] of scenario.done) done.set(what, (done.get(what) ?? 0) + times)
})

test('every kind of action has happened', () => {
  for (const what of [
    ...['write', 'rename', 'positions', 'vector', 'view', 'tag', 'user'],
    ...['restore', 'maintenance', 'run', 'failed run', 'query'],
  ])
    expect(done.get(what) ?? 0, what).toBeGreaterThan(0)
})
