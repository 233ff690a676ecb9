// A database that takes connections and statements and says nothing: frozen, or behind a network that swallows.
import { afterAll, afterEach, beforeAll, describe, expect, setDefaultTimeout, test } from 'bun:test'
import net from 'node:net'
import { sql as statement } from 'drizzle-orm'
import { type TestDatabase, testDatabase } from '../tools/test/database.ts'
import { type Database, openDatabase } from './client.ts'
import { isAway } from './errors.ts'
import { startTestProxy, type TestProxy } from './test-proxy.ts'
import { makeAnswers } from './watched-socket.ts'

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

const open = () => {
  opened = openDatabase(proxy.url, {
    connections: CONNECTIONS,
    rawConnections: CONNECTIONS,
    application: 'test',
    settings: { statement_timeout: 2_000 },
  })
}
/** Pools that share a pulse: one whose statements are short, and one that waits for its own longer than a test lasts. */
const openBeside = () => {
  const pulse = { heardAt: 0, silenceMs: 4_000 }
  const common = { connections: CONNECTIONS, rawConnections: CONNECTIONS, application: 'test', pulse }
  opened = openDatabase(proxy.url, { ...common, settings: { statement_timeout: 2_000 } })
  return openDatabase(proxy.url, { ...common, settings: { statement_timeout: 600_000 } })
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

test('a database that freezes ends what is asked, what is within a transaction, and what waits, which it never has', async () => {
  open()
  await opened.sql`create table heard (n int)`
  await works()
  const session = opened.session('does')
  const inSession = () => session.transaction((tx) => tx`select 1 as one`)
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
  // By this whoever collects what is to be asked in a session knows that it is not to be asked, either.
  for (const code of await Promise.all(askedInSession))
    expect(code).toMatch(/^(CONNECTION_SILENT|CONNECT_TIMEOUT)$/)
  proxy.thaw()
  await works()
  expect(await inSession()).toMatchObject([{ one: 1 }])
  // What was sent may have arrived, as with any connection that is lost.
  const [heard] = await opened.sql`select count(*)::int as n from heard`
  expect(heard?.n).toBeLessThanOrEqual(CONNECTIONS)
})

test('a long statement goes on while another connection hears something, and ends with a database that says nothing', async () => {
  const patient = openBeside()
  const until = performance.now() + 7_000
  const long = codeOf(patient.sql`select pg_sleep(8)`)
  while (performance.now() < until) await opened.sql`select pg_sleep(0.2)`
  expect(await long).toBe('answered')
  const ended = codeOf(patient.sql`select pg_sleep(600)`)
  await patient.db.execute(statement`select 1`)
  proxy.freeze()
  expect(await ended).toMatch(/^CONNECT/)
  proxy.thaw()
  await patient.close()
})

test('what a session hears is a sign of life for long statements, too', async () => {
  const pulse = { heardAt: 0, silenceMs: 4_000 }
  opened = openDatabase(proxy.url, { connections: 1, rawConnections: 1, application: 'test', pulse })
  const session = opened.session('does')
  await session.transaction((tx) => tx`select 1`)
  expect(pulse.heardAt).toBeGreaterThan(0)
  pulse.heardAt = 0
  await session.apart((sql) => sql`select 1`)
  expect(pulse.heardAt).toBeGreaterThan(0)
})

test.each(['', '?sslmode=require'])(
  'a proxy with no database behind it is a database that is away, and not tried again for nobody (%s)',
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
    })
    const session = opened.session('does')
    const many = Array.from({ length: 10 * CONNECTIONS }, (_, n) => n)
    const asked = [
      ...many.map(() => opened.sql`select 1`),
      ...many.map(() => opened.sql.begin((tx) => tx`select 1`)),
      ...many.map(() => opened.db.execute(statement`select 1`)),
      ...many.map(() => session.transaction((tx) => tx`select 1`)),
    ]
    const told = await Promise.all(asked.map((one) => Promise.resolve(one).catch((error) => error)))
    expect(told.map(isAway)).toEqual(told.map(() => true))
    // One for each connection: whoever has waited is told with the first.
    expect(tries).toBeLessThanOrEqual(2 * CONNECTIONS + 2)
    lonely.close()
  },
)

test('one connection that is swallowed ends nothing but what it was asked', async () => {
  open()
  await opened.sql`select 1`
  const [swallowed] = [...proxy.sockets]
  swallowed?.pause()
  const lost = codeOf(opened.sql`select 1`)
  // All the other connections have more to do than they can at once.
  const others = await Promise.all(Array.from({ length: 20 }, () => codeOf(opened.sql`select 2`)))
  expect(new Set(others)).toEqual(new Set(['answered']))
  expect(await lost).toBe('CONNECTION_SILENT')
  await works()
})

test('one connection that is lost while all are busy ends nothing but what it was asked', async () => {
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

test('a statement that the server gives up itself costs no connection', async () => {
  open()
  const pid = () => opened.db.execute<{ pid: number }>(statement`select pg_backend_pid() as pid`)
  const [before] = await pid()
  expect(await codeOf(opened.db.execute(statement`select pg_sleep(20)`))).toBe('57014')
  expect((await pid())[0]).toEqual(before)
})

test('many more statements and transactions than connections are all answered', async () => {
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

test('what is cancelled while it waits leaves its place to others, and what would keep one is refused', async () => {
  open()
  const holding = Promise.withResolvers<void>()
  const holders = Array.from({ length: CONNECTIONS }, () =>
    opened.sql.begin(async (tx) => {
      await tx`select 1`
      await holding.promise
    }),
  )
  const waiting = Array.from({ length: 2 * CONNECTIONS }, () => opened.sql`select 1`)
  const told = waiting.map(codeOf)
  // It is sent, or waits, from the next turn on.
  await opened.db.execute(statement`select 1`)
  for (const one of waiting) one.cancel()
  expect(new Set(await Promise.all(told))).toEqual(new Set(['57014']))
  expect(() => opened.sql`select 1`.cursor()).toThrow('transaction')
  expect(() => opened.sql.reserve()).toThrow('transaction')
  holding.resolve()
  await Promise.all(holders)
  await Promise.all(Array.from({ length: CONNECTIONS }, works))
  const rows = await opened.sql.begin(async (tx) => {
    const found: unknown[] = []
    for await (const some of tx`select generate_series(1, 3) as n`.cursor()) found.push(...some)
    return found
  })
  expect(rows).toEqual([{ n: 1 }, { n: 2 }, { n: 3 }])
})

describe('the answers that are owed', () => {
  const message = (kind: string, body = '') => {
    const bytes = Buffer.alloc(5 + body.length)
    bytes.write(kind)
    bytes.writeUInt32BE(4 + body.length, 1)
    bytes.write(body, 5)
    return bytes
  }
  const messages = (kinds: string) => Buffer.concat([...kinds].map((kind) => message(kind, 'body')))
  const begun = () => {
    const answers = makeAnswers()
    answers.asked(Buffer.from('how a connection begins has no kind'))
    expect(answers.areOwed()).toBe(true)
    answers.heard(messages('RSSKZ'))
    expect(answers.areOwed()).toBe(false)
    return answers
  }

  test('a question is answered by its end, in however small pieces', () => {
    const answers = begun()
    answers.asked(messages('PBDES'))
    for (const byte of messages('12TDDDC')) answers.heard(Buffer.of(byte))
    expect(answers.areOwed()).toBe(true)
    for (const byte of messages('Z')) answers.heard(Buffer.of(byte))
    expect(answers.areOwed()).toBe(false)
  })

  test('two questions have two answers', () => {
    const answers = begun()
    answers.asked(messages('Q'))
    answers.asked(messages('PDBES'))
    answers.heard(messages('TDCZ1t'))
    expect(answers.areOwed()).toBe(true)
    answers.heard(messages('T2DCZ'))
    expect(answers.areOwed()).toBe(false)
  })

  test('a question whose parameters are asked for first has an answer for each half', () => {
    const answers = begun()
    answers.asked(messages('PDH'))
    expect(answers.areOwed()).toBe(true)
    answers.heard(messages('1tT'))
    expect(answers.areOwed()).toBe(false)
    answers.asked(messages('BES'))
    answers.heard(messages('2DCZ'))
    expect(answers.areOwed()).toBe(false)
  })

  test('a question that fails at its first half is over with what ends the failure', () => {
    const answers = begun()
    answers.asked(messages('PDH'))
    answers.heard(messages('E'))
    expect(answers.areOwed()).toBe(true)
    answers.asked(messages('S'))
    answers.heard(messages('Z'))
    expect(answers.areOwed()).toBe(false)
  })

  test('news that nobody has asked for are no answer', () => {
    const answers = begun()
    answers.heard(messages('AN'))
    expect(answers.areOwed()).toBe(false)
    answers.asked(messages('Q'))
    answers.heard(messages('AN'))
    expect(answers.areOwed()).toBe(true)
  })
})
