// Tests with a silent database: it accepts connections and statements, but is frozen or behind a network that drops packets.
import { afterAll, afterEach, beforeAll, expect, setDefaultTimeout, test } from 'bun:test'
import net from 'node:net'
import { sql as statement } from 'drizzle-orm'
import { until } from '../tools/kit/until.ts'
import { type TestDatabase, testDatabase } from '../tools/service/database.ts'
import { type Database, openDatabase } from './client.ts'
import { isAway } from './errors.ts'
import { startTestProxy, type TestProxy } from './test-proxy.ts'

setDefaultTimeout(60_000)

const CONNECTIONS = 2

let database: TestDatabase
let opened: Database
let proxy: TestProxy

beforeAll(async () => {
  database = await testDatabase()
  proxy = await startTestProxy(database.url)
})
afterEach(async () => {
  proxy.thaw()
  await opened.close()
})
afterAll(async () => {
  proxy.close()
  await database.drop()
})

/** The server's statement timeout, and short times of the supervisor. */
const STATEMENT_MS = 400
const PATIENCE = { graceMs: 200, doubtMs: 100, probeMs: 300 }

const openWith = (statement_timeout: number) =>
  openDatabase(proxy.url, {
    connections: CONNECTIONS,
    rawConnections: CONNECTIONS,
    application: 'test',
    settings: { statement_timeout },
    patience: PATIENCE,
  })
const open = () => {
  opened = openWith(STATEMENT_MS)
}
const works = async () => {
  expect(await opened.sql`select 1 as one`).toMatchObject([{ one: 1 }])
  expect(await opened.sql.begin((tx) => tx`select 2 as two`)).toMatchObject([{ two: 2 }])
  expect(await opened.db.transaction((tx) => tx.execute(statement`select 3 as three`))).toMatchObject([
    { three: 3 },
  ])
}
const codeOf = (asked: Promise<unknown>) =>
  asked.then(
    () => 'answered',
    (error) => error.cause?.code ?? error.code,
  )

const untilAnswered = () =>
  until(
    () => codeOf(opened.sql`select 1`),
    (code) => code === 'answered',
  )

test('a frozen database fails running, transactional and waiting statements', async () => {
  open()
  await opened.sql`create table heard (n int)`
  await works()
  const session = opened.session('does')
  const inSession = () => session.begin((tx) => tx`select 1 as one`)
  await inSession()
  const begun = Promise.withResolvers<void>()
  const frozen = Promise.withResolvers<void>()
  const within = opened.sql.begin(async (tx) => {
    await tx`select 1`
    begun.resolve()
    await frozen.promise
    await tx`select 2`
  })
  await begun.promise
  proxy.freeze()
  frozen.resolve()
  const many = Array.from({ length: 4 * CONNECTIONS }, (_, n) => n)
  const asked = [
    within,
    ...many.map((n) => opened.sql`insert into heard values (${n})`),
    ...many.map((n) => opened.sql.begin((tx) => tx`insert into heard values (${n})`)),
    ...many.map(() => opened.db.execute(statement`select 7`)),
    opened.db.transaction((tx) => tx.execute(statement`select 8`)),
  ].map(codeOf)
  const askedInSession = many.map(() => codeOf(inSession()))
  for (const code of await Promise.all(asked)) expect(code).toMatch(/^CONNECT/)
  // With these codes, a caller that collects requests in a session also fails the requests that wait.
  for (const code of await Promise.all(askedInSession))
    expect(code).toMatch(/^(CONNECTION_SILENT|CONNECT_TIMEOUT)$/)
  proxy.thaw()
  await untilAnswered()
  await works()
  expect(await inSession()).toMatchObject([{ one: 1 }])
  // Statements that were already sent may have been executed, as with any lost connection.
  const [heard] = await opened.sql`select count(*)::int as n from heard`
  expect(heard?.n).toBeLessThanOrEqual(CONNECTIONS)
})

test('a long statement continues only while the database answers probes', async () => {
  opened = openWith(600_000)
  await opened.sql`select pg_sleep(1)`
  const ended = codeOf(opened.sql`select pg_sleep(600)`)
  await opened.db.execute(statement`select 1`)
  proxy.freeze()
  expect(await ended).toBe('CONNECTION_SILENT')
})

test('service returns soon after the thaw', async () => {
  open()
  await works()
  proxy.freeze()
  expect(await codeOf(opened.sql`select 1`)).toBe('CONNECTION_SILENT')
  // While the database is away, statements fail at once.
  const told = performance.now()
  expect(await codeOf(opened.sql`select 1`)).toBe('CONNECTION_SILENT')
  expect(performance.now() - told).toBeLessThan(200)
  proxy.thaw()
  await untilAnswered()
})

test.each(['', '?sslmode=require'])(
  'a proxy without a database counts as away after few attempts (%s)',
  async (query) => {
    let tries = 0
    const lonely = net.createServer((client) => {
      tries++
      client.on('error', () => {})
      client.end()
    })
    await new Promise<void>((resolve) => lonely.listen(0, '127.0.0.1', resolve))
    const bound = lonely.address()
    const port = typeof bound === 'object' ? bound?.port : 0
    opened = openDatabase(`postgres://nobody@127.0.0.1:${port}/none${query}`, {
      connections: CONNECTIONS,
      rawConnections: CONNECTIONS,
      application: 'test',
      patience: PATIENCE,
    })
    const session = opened.session('does')
    const many = Array.from({ length: 10 * CONNECTIONS }, (_, n) => n)
    const asked = [
      ...many.map(() => opened.sql`select 1`),
      ...many.map(() => opened.sql.begin((tx) => tx`select 1`)),
      ...many.map(() => opened.db.execute(statement`select 1`)),
      ...many.map(() => session.begin((tx) => tx`select 1`)),
    ]
    const told = await Promise.all(asked.map((one) => Promise.resolve(one).catch((error) => error)))
    expect(told.map(isAway)).toEqual(told.map(() => true))
    // A few attempts are for connections and probes. The first failure ends all waiting statements.
    expect(tries).toBeLessThanOrEqual(many.length - 2)
    lonely.close()
  },
)

test('a silent connection fails its statement and at most one other', async () => {
  open()
  await opened.sql`select 1`
  const [swallowed] = [...proxy.sockets]
  swallowed?.pause()
  const lost = codeOf(opened.sql`select 1`)
  // The other connections have more statements than they can execute at once.
  const others = await Promise.all(Array.from({ length: 20 }, () => codeOf(opened.sql`select 2`)))
  expect(others.filter((code) => code !== 'answered').length).toBeLessThanOrEqual(1)
  expect(await lost).toBe('CONNECTION_SILENT')
  await works()
})

test('a lost connection fails only its own transaction while all are busy', async () => {
  open()
  const holding = Array.from({ length: CONNECTIONS }, () => Promise.withResolvers<void>())
  const begun = Array.from({ length: CONNECTIONS }, () => Promise.withResolvers<number>())
  const holders = holding.map((held, n) =>
    codeOf(
      opened.sql.begin(async (tx) => {
        const [row] = await tx`select pg_backend_pid() as pid`
        begun[n]?.resolve(row?.pid)
        await held.promise
        await tx`select 1`
      }),
    ),
  )
  const [lost] = await Promise.all(begun.map(({ promise }) => promise))
  const waiting = Array.from({ length: 20 }, () => codeOf(opened.sql`select 1`))
  await opened.db.execute(statement`select pg_terminate_backend(${lost})`)
  expect(await holders[0]).toMatch(/^CONNECT/)
  expect(new Set(await Promise.all(waiting))).toEqual(new Set(['answered']))
  for (const { resolve } of holding) resolve()
  expect(await Promise.all(holders.slice(1))).toEqual(['answered'])
})

test('a statement timeout of the server keeps its connection open', async () => {
  open()
  const pid = () => opened.db.execute<{ pid: number }>(statement`select pg_backend_pid() as pid`)
  const [before] = await pid()
  expect(await codeOf(opened.db.execute(statement`select pg_sleep(2)`))).toBe('57014')
  expect((await pid())[0]).toEqual(before)
})

test('all statements and transactions finish with fewer connections than requests', async () => {
  open()
  const answers = await Promise.all(
    Array.from({ length: 200 }, (_, n) =>
      n % 2 === 0
        ? opened.sql<{ n: number }[]>`select ${n}::int as n`
        : opened.sql.begin((tx) => tx<{ n: number }[]>`select ${n}::int as n`),
    ),
  )
  expect(answers.map(([row]) => row?.n)).toEqual(Array.from({ length: 200 }, (_, n) => n))
})
