import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from 'bun:test'
import { sql as statement } from 'drizzle-orm'
import { type TestDatabase, testDatabase } from '../tools/service/database.ts'
import { type Database, openDatabase } from './client.ts'
import { startTestProxy, type TestProxy } from './test-proxy.ts'

setDefaultTimeout(60_000)

let database: TestDatabase
let opened: Database
let proxy: TestProxy

/** One connection of each kind, through a proxy that can cut connections without notice. */
beforeAll(async () => {
  database = await testDatabase()
  proxy = await startTestProxy(database.url)
  opened = openDatabase(proxy.url, { connections: 1, rawConnections: 1, application: 'test' })
})
afterAll(async () => {
  await opened.close()
  proxy.close()
  await database.drop()
})

const works = async () => {
  expect(await opened.sql`select 1 as one`).toMatchObject([{ one: 1 }])
  expect(await opened.sql.begin((tx) => tx`select 2 as two`)).toMatchObject([{ two: 2 }])
  expect(await opened.db.transaction((tx) => tx.execute(statement`select 3 as three`))).toMatchObject([
    { three: 3 },
  ])
}

describe('connections lost in a transaction', () => {
  test('a connection lost during a statement fails only its transaction', async () => {
    const ended = opened.sql.begin(async (tx) => {
      await tx`select 1`
      setImmediate(proxy.cut)
      await tx`select pg_sleep(20)`
    })
    await expect(ended).rejects.toMatchObject({ code: 'CONNECTION_CLOSED' })
    await works()
  })

  test('a connection lost between two statements prevents the second statement', async () => {
    const woken = Promise.withResolvers<void>()
    let second: Promise<unknown> = Promise.resolve()
    const ended = opened.sql.begin(async (tx) => {
      await tx`select 1`
      proxy.cut()
      await woken.promise
      second = (async () => tx`select 2`)()
      await second
    })
    await expect(ended).rejects.toMatchObject({ code: 'CONNECTION_CLOSED' })
    woken.resolve()
    await woken.promise
    await expect(second).rejects.toThrow('has ended')
    await works()
  })

  test('a connection lost under the typed client fails only its transaction', async () => {
    const ended = opened.db.transaction(async (tx) => {
      await tx.execute(statement`select 1`)
      setImmediate(proxy.cut)
      await tx.execute(statement`select pg_sleep(20)`)
    })
    await expect(ended).rejects.toMatchObject({ code: 'CONNECTION_CLOSED' })
    await works()
  })

  test('repeatedly lost connections leave the pool usable', async () => {
    for (let round = 0; round < 3; round++) {
      const ended = opened.sql.begin(async (tx) => {
        await Promise.all([tx`select 1`, tx`select 2`])
        proxy.cut()
        await Promise.all([tx`select 3`, tx`select 4`, tx`select 5`])
      })
      await expect(ended).rejects.toThrow()
    }
    await works()
  })
})

test('transactions return results, throw errors and accept options', async () => {
  expect(await opened.sql.begin((tx) => [tx`select 1 as a`, tx`select 2 as a`])).toMatchObject([
    [{ a: 1 }],
    [{ a: 2 }],
  ])
  const failed = opened.sql.begin(async (tx) => {
    await tx`insert into namespace (name) values ('half')`
    await tx`select 1 / 0`
  })
  await expect(failed).rejects.toMatchObject({ code: '22012' })
  expect(await opened.sql`select 1 from namespace where name = 'half'`).toHaveLength(0)
  const level = await opened.sql.begin(
    'isolation level serializable',
    (tx) => tx`select current_setting('transaction_isolation') as level`,
  )
  expect(level).toMatchObject([{ level: 'serializable' }])
})

test('an unrelated connection error inside a transaction rolls it back', async () => {
  const reset = Object.assign(new Error('the object store does not answer'), { code: 'ECONNRESET' })
  const failing = opened.db.transaction(async (tx) => {
    await tx.execute(statement`insert into namespace (name, description) values ('lost', '')`)
    throw reset
  })
  await expect(failing).rejects.toBe(reset)
  expect(await opened.sql`select 1 from namespace where name = 'lost'`).toHaveLength(0)
  await works()
})
