import { describe, expect, setDefaultTimeout, test } from 'bun:test'
import { join } from 'node:path'
import type { SqlTx } from '../../drizzle/client.ts'
import { secrets } from '../../drizzle/schema/system.ts'
import { until } from '../../tools/kit/until.ts'
import { useDatabase } from '../../tools/service/database.ts'
import { newId } from '../core/ids.ts'
import { answerOnce, answerOnceTyped, type IdempotencyKey } from './idempotency.ts'

setDefaultTimeout(60_000)

// Fewer connections than rivals: requests that wait for a key must not block its holder.
const opened = useDatabase({ rawConnections: 4 })

let keysCreated = 0
const newKey = (changed: Partial<IdempotencyKey> = {}): IdempotencyKey => ({
  caller: '',
  operation: 'POST /api/v1/runs',
  key: `key-${keysCreated++}`,
  requestHash: 'a',
  ...changed,
})

/** Work that inserts one row each time it is performed, with the value `value`. */
const insertRow = (value: string, then: (tx: SqlTx) => Promise<void> = async () => {}) => ({
  prepare: async () => newId(),
  perform: async (tx: SqlTx, id: string) => {
    await tx`insert into secret (name, value) values (${id}, ${value})`
    await then(tx)
    return { status: 202, body: { id } }
  },
})
const rowsWith = async (value: string) => {
  const rows = await opened.sql<{ name: string }[]>`select name from secret where value = ${value}`
  return rows.map(({ name }) => name)
}
const expire = ({ key }: IdempotencyKey, age = '24 hours 1 second') =>
  opened.sql`update idempotency_key set created_at = clock_timestamp() - ${age}::interval where key = ${key}`
const conflict = { status: 409, code: 'ALREADY_EXISTS' }

describe('idempotency keys', () => {
  test('a repeated key returns the first answer without new work', async () => {
    const key = newKey()
    const first = await answerOnce(opened.sql, key, insertRow('once'))
    expect(first).toMatchObject({ isRepeat: false, answer: { status: 202 } })
    const again = await answerOnce(opened.sql, key, insertRow('once'))
    expect(again).toEqual({ isRepeat: true, answer: first?.answer as never })
    expect(await rowsWith('once')).toEqual([first?.answer.body.id as string])
  })

  test('twenty concurrent requests with one key are performed once', async () => {
    const key = newKey()
    const answers = await Promise.all(
      Array.from({ length: 20 }, () => answerOnce(opened.sql, key, insertRow('raced'))),
    )
    expect(answers.filter((one) => one?.isRepeat === false)).toHaveLength(1)
    expect([...new Set(answers.map((one) => one?.answer.body.id))]).toEqual(await rowsWith('raced'))
  })

  test('a key with another request is a conflict', async () => {
    const key = newKey()
    const requests = Array.from({ length: 20 }, (_, index) => ({ ...key, requestHash: String(index) }))
    const outcomes = await Promise.allSettled(
      requests.map((key) => answerOnce(opened.sql, key, insertRow('bodies'))),
    )
    const refused = outcomes.filter((one) => one.status === 'rejected')
    expect(refused).toHaveLength(19)
    for (const { reason } of refused) expect(reason).toMatchObject(conflict)
    expect(await rowsWith('bodies')).toHaveLength(1)
  })

  test('a key belongs to one caller and one operation', async () => {
    const key = newKey()
    const keys = [key, { ...key, caller: 'ann' }, { ...key, operation: 'POST /publish' }]
    for (const scopedKey of keys)
      expect(
        await answerOnce(opened.sql, { ...scopedKey, requestHash: newId() }, insertRow('scoped')),
      ).toMatchObject({
        isRepeat: false,
      })
  })

  test('returns the answer of a rival when its own preparation fails', async () => {
    const key = newKey()
    const rivals: object[] = []
    const late = await answerOnce(opened.sql, key, {
      ...insertRow('late'),
      prepare: async () => {
        rivals.push({ ...(await answerOnce(opened.sql, key, insertRow('late'))) })
        throw new Error('it is gone')
      },
    })
    expect(late).toEqual({ ...rivals[0], isRepeat: true } as never)
    expect(await rowsWith('late')).toHaveLength(1)
  })

  test('a refused request releases its key', async () => {
    const key = newKey()
    const refuse = { prepare: async () => null, perform: async () => null }
    expect(await answerOnce(opened.sql, key, refuse)).toBeNull()
    const failing = insertRow('refused', () => Promise.reject(new Error('no')))
    await expect(answerOnce(opened.sql, key, failing)).rejects.toThrow('no')
    expect(await rowsWith('refused')).toEqual([])
    const other = { ...key, requestHash: 'b' }
    expect(await answerOnce(opened.sql, other, insertRow('refused'))).toMatchObject({ isRepeat: false })
  })

  test('a killed process leaves nothing, and a waiting repetition takes over', async () => {
    const key = newKey()
    const child = Bun.spawn(
      [process.execPath, join(import.meta.dir, 'idempotency.child.ts'), opened.url, key.key, newId()],
      { stdout: 'pipe', stderr: 'inherit' },
    )
    const reader = child.stdout.getReader()
    expect(new TextDecoder().decode((await reader.read()).value)).toBe('half performed\n')
    const repeat = answerOnce(opened.sql, key, insertRow('crashed'))
    await until(
      () => opened.sql`
        select 1 from pg_stat_activity where datname = current_database() and cardinality(pg_blocking_pids(pid)) > 0`,
      (waiting) => waiting.length > 0,
    )
    expect(await rowsWith('crashed')).toEqual([])
    child.kill('SIGKILL')
    const outcome = await repeat
    expect(outcome?.isRepeat).toBe(false)
    expect(await rowsWith('crashed')).toEqual([outcome?.answer.body.id as string])
  })

  test('a repeated key gets the stored answer after its resource was deleted', async () => {
    const key = newKey()
    const first = await answerOnce(opened.sql, key, insertRow('gone'))
    const gone = { ...insertRow('gone'), prepare: () => Promise.reject(new Error('404')) }
    expect((await answerOnce(opened.sql, key, gone))?.answer).toEqual(first?.answer as never)
    await expect(answerOnce(opened.sql, newKey(), gone)).rejects.toThrow('404')
  })
})

test('raw and typed clients share a key', async () => {
  const key = newKey()
  const answers = await Promise.all(
    Array.from({ length: 10 }, (_, turn) =>
      turn % 2 === 0
        ? answerOnce(opened.sql, key, insertRow('both'))
        : answerOnceTyped(opened.db, key, {
            prepare: async () => newId(),
            async perform(tx, id) {
              await tx.insert(secrets).values({ name: id, value: 'both' })
              return { status: 202, body: { id } }
            },
          }),
    ),
  )
  expect(answers.filter((one) => one?.isRepeat === false)).toHaveLength(1)
  expect([...new Set(answers.map((one) => one?.answer.body.id))]).toEqual(await rowsWith('both'))
})

describe('expiry', () => {
  test('an idempotency key expires after 24 hours, also for concurrent requests', async () => {
    const key = newKey()
    const first = await answerOnce(opened.sql, key, insertRow('day'))
    await expire(key, '23 hours 59 minutes')
    expect((await answerOnce(opened.sql, key, insertRow('day')))?.isRepeat).toBe(true)
    await expire(key)
    const other = { ...key, requestHash: 'b' }
    const answers = await Promise.all([1, 2, 3].map(() => answerOnce(opened.sql, other, insertRow('day'))))
    expect(answers.filter((one) => one?.isRepeat === false)).toHaveLength(1)
    expect(answers[0]?.answer.body.id).not.toBe(first?.answer.body.id as string)
    expect(await rowsWith('day')).toHaveLength(2)
    await expect(answerOnce(opened.sql, key, insertRow('day'))).rejects.toMatchObject(conflict)
  })
})

test('a user without free keys still gets answers of earlier keys', async () => {
  const first = newKey({ caller: 'ann' })
  await answerOnce(opened.sql, first, insertRow('of-ann'))
  await opened.sql`
    insert into idempotency_key (caller, operation, key, request_hash, status, body)
    select 'ann', 'POST /api/v1/runs', 'many-' || n, 'a', 202, '{}' from generate_series(1, 99999) n`
  const refused = answerOnce(opened.sql, newKey({ caller: 'ann' }), insertRow('one-more'))
  await expect(refused).rejects.toMatchObject({ status: 409, code: 'FAILED_PRECONDITION' })
  expect(await rowsWith('one-more')).toEqual([])
  expect(await answerOnce(opened.sql, first, insertRow('of-ann'))).toMatchObject({ isRepeat: true })
  for (const caller of ['bob', ''])
    expect(await answerOnce(opened.sql, newKey({ caller }), insertRow(caller))).toMatchObject({
      isRepeat: false,
    })
  await opened.sql`delete from idempotency_key where caller = 'ann'`
})
