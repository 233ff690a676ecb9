import {
  afterAll,
  afterEach,
  beforeAll,
  beforeEach,
  describe,
  expect,
  setDefaultTimeout,
  test,
} from 'bun:test'
import { type TestDatabase, testDatabase } from '../tools/test/database.ts'
import { type Database, openDatabase } from './client.ts'
import { isPassing } from './errors.ts'
import { inTransaction, lastly, openSession, type Session } from './session.ts'
import { startTestProxy, type TestProxy } from './test-proxy.ts'
import { together } from './together.ts'

setDefaultTimeout(60_000)

let database: TestDatabase
let opened: Database
let proxy: TestProxy
let session: Session
/** What the client has sent, one entry for each piece that reached the proxy. */
let sent: string[] = []
let pass = true

beforeAll(async () => {
  database = await testDatabase()
  opened = openDatabase(database.url, { connections: 1, rawConnections: 2, application: 'test' })
  await opened.sql`create table note (text text primary key)`
  proxy = await startTestProxy(database.url, (piece) => {
    sent.push(piece.toString('latin1'))
    return pass
  })
})
afterAll(async () => {
  proxy.close()
  await opened.close()
  await database.drop()
})
beforeEach(async () => {
  pass = true
  await opened.sql`truncate note`
  session = openSession(proxy.url, { application: 'session', turnMs: 10_000 })
})
afterEach(() => session.close())

const notes = async () => (await opened.sql`select text from note order by text`).map(({ text }) => text)
const write = (text: string) =>
  session.transaction(async (tx) => {
    const [row] = await tx`select 1 as one`
    return lastly(
      tx,
      tx`insert into note (text) values (${text}) returning text`,
      ([note]) => `${row?.one} ${note?.text}`,
    )
  })

test('BEGIN goes with the first statement and COMMIT with the last', async () => {
  await write('prepared')
  sent = []
  expect(await write('a')).toBe('1 a')
  expect(sent).toHaveLength(2)
  expect(sent[0]).toMatch(/^Q....begin read write/s)
  expect(sent[1]).toMatch(/commit\0$/)
  expect(await notes()).toEqual(['a', 'prepared'])
})

test('transactions follow each other on one connection, and statements that are their own on another', async () => {
  const pid = async (ask: Session['apart']) =>
    ask(async (sql) => (await sql`select pg_backend_pid() as pid`)[0]?.pid)
  const ofTransaction = () =>
    session.transaction(async (tx) => (await tx`select pg_backend_pid() as pid`)[0]?.pid)
  const pids = await Promise.all([
    ofTransaction(),
    pid(session.apart),
    write('x').then(ofTransaction),
    pid(session.apart),
  ])
  expect(pids[2]).toBe(pids[0])
  expect(pids[3]).toBe(pids[1])
  expect(new Set(pids).size).toBe(2)
})

describe('a table that is given other types while its statements are known', () => {
  beforeEach(async () => void (await opened.sql`create table altered (text text)`))
  afterEach(async () => void (await opened.sql`drop table altered`))
  const texts = async () => (await opened.sql`select text from altered order by text`).map(({ text }) => text)

  test('a statement that COMMIT has gone with is not performed alone when the client sends it again', async () => {
    const add = (text: string) =>
      session.transaction(async (tx) => {
        await tx`select 1`
        return lastly(tx, tx`insert into altered (text) values (${text}) returning text`, () => 'added')
      })
    await add('before')
    await opened.sql`alter table altered alter text type varchar(100)`
    await expect(add('alone')).rejects.toMatchObject({ code: '0A000' })
    expect(await texts()).toEqual(['before'])
    expect(await add('after')).toBe('added')
    expect(await texts()).toEqual(['after', 'before'])
  })

  test('a statement that is its own transaction is performed once', async () => {
    const add = (text: string) =>
      session.apart((sql) => sql`insert into altered (text) values (${text}) returning text`)
    await add('before')
    await opened.sql`alter table altered alter text type varchar(100)`
    await add('again')
    expect(await texts()).toEqual(['again', 'before'])
  })
})

test('a pool does the same, statement by statement', async () => {
  const told = await inTransaction(opened.sql, async (tx) =>
    lastly(tx, tx`insert into note (text) values ('pool') returning text`, ([note]) => note?.text),
  )
  expect(told).toBe('pool')
})

describe('what fails is rolled back, and the next transaction finds the connection as it was', () => {
  test('the work', async () => {
    const failed = session.transaction(async (tx) => {
      await tx`insert into note (text) values ('half')`
      throw new Error('no')
    })
    await expect(failed).rejects.toThrow('no')
    expect(await write('next')).toBe('1 next')
    expect(await notes()).toEqual(['next'])
  })

  test('the first statement', async () => {
    await expect(session.transaction((tx) => tx`select 1 / 0`)).rejects.toMatchObject({ code: '22012' })
    expect(await write('next')).toBe('1 next')
  })

  test('the first statement, before it is sent', async () => {
    await write('opened')
    const impossible = undefined as unknown as string
    const failed = session.transaction((tx) => tx`insert into note (text) values (${impossible})`)
    await expect(failed).rejects.toThrow('UNDEFINED_VALUE')
    expect(await write('next')).toBe('1 next')
    expect(await notes()).toEqual(['next', 'opened'])
  })

  test('the last statement', async () => {
    await write('twice')
    await expect(write('twice')).rejects.toMatchObject({ code: '23505' })
    expect(await write('next')).toBe('1 next')
    expect(await notes()).toEqual(['next', 'twice'])
  })

  test('the last statement, before it is sent', async () => {
    const failed = session.transaction(async (tx) => {
      await tx`select 1`
      const impossible = undefined as unknown as string
      return lastly(tx, tx`insert into note (text) values (${impossible})`, () => 'never')
    })
    await expect(failed).rejects.toThrow('UNDEFINED_VALUE')
    expect(await write('next')).toBe('1 next')
    expect(await notes()).toEqual(['next'])
  })

  test('one of two branches of the work: what the other asks later is not asked', async () => {
    const over = Promise.withResolvers<void>()
    let late: Promise<unknown> = Promise.resolve()
    const failed = session.transaction((tx) => {
      late = over.promise.then(() => tx`insert into note (text) values ('late')`)
      return Promise.all([tx`select 1 / 0`, late])
    })
    await expect(failed).rejects.toMatchObject({ code: '22012' })
    over.resolve()
    await expect(late).rejects.toThrow('has ended')
    expect(await notes()).toEqual([])
  })

  test('a statement whose failure the work passes over', async () => {
    const failed = session.transaction(async (tx) => {
      await tx`select 1 / 0`.catch(() => {})
      return 'all is well'
    })
    await expect(failed).rejects.toThrow('rolled back')
  })
})

describe('a condition', () => {
  const never = async () => false

  test('that does not hold leaves nothing behind, whatever the work has done', async () => {
    const refused = session.fenced(never, (tx) => tx`insert into note (text) values ('refused')`)
    expect(await refused).toBeNull()
    const last = session.fenced(never, async (tx) =>
      lastly(tx, tx`insert into note (text) values ('refused')`, () => 'never'),
    )
    expect(await last).toBeNull()
    expect(await notes()).toEqual([])
  })

  test('that does not hold ends the work at its next statement', async () => {
    let hasGoneOn = false
    const refused = session.fenced(
      async (tx) => (await tx`select 1 where false`).length > 0,
      async (tx) => {
        await tx`select 1`
        await tx`select 2`
        hasGoneOn = true
      },
    )
    expect(await refused).toBeNull()
    expect(hasGoneOn).toBe(false)
  })

  test('that cannot be asked is an error', async () => {
    const failed = session.fenced(
      async (tx) => (await tx`select 1 / 0`).length > 0,
      async () => 'done',
    )
    await expect(failed).rejects.toMatchObject({ code: '22012' })
    expect(await write('next')).toBe('1 next')
  })
})

describe('a connection that is lost', () => {
  const isLost = (error: unknown) => isPassing(error)

  test('between two statements: the second is not sent, and the next transaction finds another connection', async () => {
    const woken = Promise.withResolvers<void>()
    let second: Promise<unknown> = Promise.resolve()
    const lost = session
      .transaction(async (tx) => {
        await tx`insert into note (text) values ('lost')`
        proxy.cut()
        await woken.promise
        second = (async () => tx`insert into note (text) values ('outside')`)()
        await second
      })
      .catch((error) => error)
    expect(isLost(await lost)).toBe(true)
    woken.resolve()
    await woken.promise
    await expect(second).rejects.toThrow('has ended')
    expect(await write('next')).toBe('1 next')
    expect(await notes()).toEqual(['next'])
  })

  test('before BEGIN is answered: nothing of it is written on the next one', async () => {
    await write('prepared')
    pass = false
    const lost = session
      .transaction(async (tx) => {
        await Promise.all([
          tx`insert into note (text) values ('one')`,
          tx`insert into note (text) values ('two')`,
        ])
      })
      .catch((error) => error)
    setImmediate(proxy.cut)
    expect(isLost(await lost)).toBe(true)
    pass = true
    expect(await write('next')).toBe('1 next')
    expect(await notes()).toEqual(['next', 'prepared'])
  })

  test('under the last statement: it is whole or not there', async () => {
    for (let round = 0; round < 5; round++) {
      const text = `round ${round}`
      const ended = session
        .transaction(async (tx) => {
          await tx`select 1`
          setImmediate(proxy.cut)
          const both = together(
            tx,
            [tx`one as (insert into note (text) values (${`${text} a`}))`],
            tx`select pg_sleep(0.2)`,
          )
          return lastly(tx, both, () => 'done')
        })
        .catch((error) => error)
      expect(isLost(await ended)).toBe(true)
      await write(`${text} next`)
    }
    expect((await notes()).filter((text) => text.endsWith('next'))).toHaveLength(5)
  })

  test('by its own end: what comes later is told', async () => {
    await write('opened')
    await session.close()
    expect(isLost(await write('late').catch((error) => error))).toBe(true)
  })

  test('while it is opened: what waits is told, and tried again by whoever asks again', async () => {
    const nowhere = openSession('postgres://nobody:x@127.0.0.1:1/none', {
      application: 'none',
      turnMs: 5_000,
    })
    expect(isLost(await nowhere.transaction((tx) => tx`select 1`).catch((error) => error))).toBe(true)
    expect(isLost(await nowhere.apart((sql) => sql`select 1`).catch((error) => error))).toBe(true)
    await nowhere.close()
  })
})
