import { afterEach, beforeAll, expect, test } from 'bun:test'
import type { Sql } from '../../drizzle/client.ts'
import { useDatabase } from '../../tools/service/database.ts'
import { EFFECT_TRIES, performDue } from './outbox.ts'

const database = useDatabase({ rawConnections: 2 })
let sql: Sql
beforeAll(async () => {
  sql = database.sql
})
afterEach(async () => {
  await sql`truncate outbox`
})

const queue = () =>
  sql`insert into outbox (kind, payload, due_at) values ('movedObject', '{}', clock_timestamp())`
const remaining = () => sql<{ tries: number; minutes: number }[]>`
  select tries, round(extract(epoch from due_at - clock_timestamp()) / 60)::int as minutes from outbox`
const becomesDue = () => sql`update outbox set due_at = clock_timestamp() - interval '1 minute'`
const failing = { movedObject: () => Promise.reject(new Error('the store is away')) }

/** Performs the queued effects `times` times; each time their delays are over. Returns the number of errors. */
async function performTimes(times: number, lastTry?: number): Promise<number> {
  const errors: unknown[] = []
  for (let n = 0; n < times; n++) {
    await becomesDue()
    await performDue(sql, failing, (_, error) => errors.push(error), lastTry)
  }
  return errors.length
}

test('a failing effect retries within a minute, then hourly, until it succeeds', async () => {
  await queue()
  expect(await performTimes(EFFECT_TRIES - 1)).toBe(EFFECT_TRIES - 1)
  expect(await remaining()).toEqual([{ tries: EFFECT_TRIES - 1, minutes: 1 }] as never)
  await performTimes(100)
  expect(await remaining()).toEqual([{ tries: EFFECT_TRIES + 99, minutes: 60 }] as never)
  await becomesDue()
  const performed: unknown[] = []
  await performDue(sql, { movedObject: async (payload) => void performed.push(payload) }, () => {})
  expect(performed).toHaveLength(1)
  expect(await remaining()).toEqual([] as never)
})

test('an effect with limited tries is removed after its last try', async () => {
  await queue()
  expect(await performTimes(5, 3)).toBe(3)
  expect(await remaining()).toEqual([] as never)
})
