import { afterAll, beforeAll, expect, test } from 'bun:test'
import { type Database, openDatabase } from '../../drizzle/client.ts'
import { type TestDatabase, testDatabase } from '../../tools/test/database.ts'
import { addPipeline } from '../../workers/testing.ts'
import { newId } from '../core/ids.ts'
import { endCooldowns } from './moves.ts'
import { makeTriggerService } from './service.ts'

let database: TestDatabase
let opened: Database
beforeAll(async () => {
  database = await testDatabase()
  opened = openDatabase(database.url, { connections: 1, rawConnections: 2, application: 'test' })
})
afterAll(async () => {
  await opened.close()
  await database.drop()
})

test('a cooldown of a trigger that somebody has locked delays nobody’s, and ends later', async () => {
  const { sql } = opened
  const ref = { namespace: 'default', layer: 'gold', name: 'p' } as const
  await addPipeline(sql, ref.name, { landingZones: [], nudge: () => {} })
  const config = { namespace: 'default', layer: 'gold', pipeline: 'p' }
  const [locked, free] = await Promise.all(
    ['locked', 'free'].map(() =>
      makeTriggerService({ sql, newId }).create(ref, {
        type: 'pipeline_success',
        config,
        cooldown_seconds: 60,
      }),
    ),
  )
  await sql`
    update trigger set state = 'cooling', cooling_until = clock_timestamp() - interval '1 s',
      snapshot = jsonb_set(snapshot, '{value}', '"cooling"')`
  const stateOf = async (id = '') => (await sql`select state from trigger where id = ${id}`)[0]?.state
  await sql.begin(async (holder) => {
    await holder`select from trigger where id = ${locked?.id ?? ''} for update`
    const cooled = await sql.begin(async (tx) => {
      await tx`set local lock_timeout = '1s'`
      return endCooldowns(tx, 10)
    })
    expect(cooled).toEqual({ cooled: 1, hasMore: false })
  })
  expect([await stateOf(locked?.id), await stateOf(free?.id)]).toEqual(['cooling', 'armed'])
  expect(await sql.begin((tx) => endCooldowns(tx, 10))).toEqual({ cooled: 1, hasMore: false })
  expect(await stateOf(locked?.id)).toBe('armed')
})
