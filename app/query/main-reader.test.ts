import { expect, test } from 'bun:test'
import type { Sql } from '../../drizzle/client.ts'
import { makeTokens } from '../catalog/tokens.ts'
import { systemClock } from '../core/clock.ts'
import { type MainView, makeMainReader } from './main-reader.ts'

/** Postgres, which answers when and what the test says. */
function startPostgres() {
  const asked: PromiseWithResolvers<{ number: string }[]>[] = []
  const sql = () => {
    const question = Promise.withResolvers<{ number: string }[]>()
    asked.push(question)
    return question.promise
  }
  const next = () => asked.shift() ?? expect.unreachable('Postgres was not asked')
  return {
    sql: sql as unknown as Sql,
    questions: () => asked.length,
    answer: (commit: number) => next().resolve([{ number: String(commit) }]),
    fail: () => next().reject(new Error('Postgres is gone')),
  }
}

function readerOn(postgres: ReturnType<typeof startPostgres>, clock = systemClock) {
  const tokens = makeTokens('secret')
  return makeMainReader({ sql: postgres.sql, tokens, clock, publicUrl: 'http://api' })
}

/** A reader of whom the last two answers were the same, and work that notes what it was given. */
async function steadyAt(commit: number, clock = systemClock) {
  const postgres = startPostgres()
  const reader = readerOn(postgres, clock)
  for (let n = 0; n < 2; n += 1) {
    const read = reader.now()
    postgres.answer(commit)
    await read
  }
  const begun: {
    commit: number
    token: string
    signal: AbortSignal | null
    end: PromiseWithResolvers<string>
  }[] = []
  const work = (main: MainView, signal: AbortSignal | null) => {
    const end = Promise.withResolvers<string>()
    begun.push({ commit: Number(main.commit), token: main.token, signal, end })
    return end.promise
  }
  return { postgres, reader, work, begun }
}
const turn = () => new Promise((resolve) => setImmediate(resolve))

test('work waits for main where nothing is known of it, and where it has just changed', async () => {
  const postgres = startPostgres()
  const reader = readerOn(postgres)
  for (const commit of [4, 5, 6]) {
    let given: bigint | undefined
    const read = reader.read(async ({ commit }) => {
      given = commit
    })
    await turn()
    expect(given).toBeUndefined()
    postgres.answer(commit)
    await read
    expect(given).toBe(BigInt(commit))
  }
})

test('work on a main that has not changed begins before Postgres has answered, and is done once', async () => {
  const { postgres, reader, work, begun } = await steadyAt(7)
  const read = reader.read(work)
  expect(begun.map(({ commit }) => commit)).toEqual([7])
  expect(postgres.questions()).toBe(1)
  postgres.answer(7)
  begun[0]?.end.resolve('rows')
  expect(await read).toBe('rows')
  expect(begun).toHaveLength(1)
})

test('nothing is answered before Postgres has said that main is what was read', async () => {
  const { postgres, reader, work, begun } = await steadyAt(7)
  let answered: string | undefined
  const read = reader.read(work).then((rows) => {
    answered = rows
  })
  begun[0]?.end.resolve('rows')
  await turn()
  expect(answered).toBeUndefined()
  postgres.answer(7)
  await read
  expect(answered).toBe('rows')
})

test.each(['rows', new Error('there is no table gold.fresh')])(
  'what an older main gives, %p, never counts: work is done again on the newer one, and stopped on the older',
  async (early) => {
    const { postgres, reader, work, begun } = await steadyAt(7)
    const read = reader.read(work)
    if (early instanceof Error) begun[0]?.end.reject(early)
    else begun[0]?.end.resolve(early)
    postgres.answer(8)
    await turn()
    expect(begun.map(({ commit }) => commit)).toEqual([7, 8])
    begun[1]?.end.resolve('newer rows')
    expect(await read).toBe('newer rows')
    const signal = begun[0]?.signal
    if (!signal?.aborted) await new Promise((resolve) => signal?.addEventListener('abort', resolve))
    expect(begun[1]?.signal).toBeNull()

    const after = reader.read(work)
    expect(begun).toHaveLength(2)
    postgres.answer(8)
    await turn()
    expect(begun.map(({ commit }) => commit)).toEqual([7, 8, 8])
    begun[2]?.end.resolve('the same rows')
    expect(await after).toBe('the same rows')
  },
)

test('without an answer of Postgres there is none, and what has begun is stopped', async () => {
  const { postgres, reader, work, begun } = await steadyAt(7)
  const read = reader.read(work)
  begun[0]?.end.resolve('rows')
  postgres.fail()
  await expect(read).rejects.toThrow('Postgres is gone')
  expect(begun[0]?.signal?.aborted).toBe(true)
})

test('after a pause longer than its token lasts, work waits for a new one, though main has not changed', async () => {
  let now = new Date('2026-01-01T00:00:00Z')
  const { postgres, reader, work, begun } = await steadyAt(7, { ...systemClock, now: () => now })
  const readNow = async () => {
    const read = reader.read(work)
    postgres.answer(7)
    await turn()
    begun.at(-1)?.end.resolve('rows')
    expect(await read).toBe('rows')
  }
  await readNow()
  now = new Date('2026-01-01T00:10:00Z')
  await readNow()
  expect(begun).toHaveLength(2)
  expect(begun[1]?.token).not.toBe(begun[0]?.token)
})

test('a token is shown again while it lasts longer than any query, and only for its commit', async () => {
  let now = new Date('2026-01-01T00:00:00Z')
  const postgres = startPostgres()
  const reader = readerOn(postgres, { ...systemClock, now: () => now })
  const tokenAt = async (commit: number) => {
    const read = reader.now()
    postgres.answer(commit)
    return (await read).token
  }
  const first = await tokenAt(7)
  expect(await tokenAt(7)).toBe(first)
  const other = await tokenAt(8)
  expect(other).not.toBe(first)
  now = new Date('2026-01-01T00:01:01Z')
  expect(await tokenAt(8)).not.toBe(other)
})
