import { expect, test } from 'bun:test'
import { duringTests } from '../../tools/kit/during.ts'
import { seesAll } from '../access/code-visibility.ts'
import { makeWorkFiles } from '../attempt-access/work-files.ts'
import { newId } from '../core/ids.ts'
import { openTestCatalog } from '../iceberg/test-catalog.ts'
import { bytesOf } from '../objects/body.ts'
import type { ObjectStore } from '../objects/port.ts'
import { makeLakeWrites } from './writes.ts'

// Two API replicas with one Postgres and one store, which accepts a second object under a key without an error.

const catalog = duringTests(() => openTestCatalog())
const KEY = '_lake/default/gold/orders-01234567/data'
const CALLER = {
  grant: { write: '_lake/default/gold/orders-01234567/', view: { commit: 1, branch: null } },
} as never
const ADMIN = { isAdmin: true } as never

/** A replica that waits before it makes its object visible, until `isReady` resolves. */
const replica = (isReady: () => Promise<void>) => {
  const objects: ObjectStore = {
    ...catalog.objects,
    stage: async (...args) => {
      const staged = await catalog.objects.stage(...args)
      return {
        ...staged,
        commit: async (key) => {
          await isReady()
          return staged.commit(key)
        },
      }
    },
  }
  const { sql } = catalog
  const works = makeWorkFiles({ sql, objects, codeVisibility: seesAll })
  const isTrue = async () => true
  return makeLakeWrites({
    sql,
    objects,
    newId,
    works,
    mayUse: async () => {},
    mayWrite: isTrue,
    takesFiles: isTrue,
  })
}
const codeOf = (error: { s3Code?: string }) => error.s3Code ?? String(error)

test('a key that another replica is storing is refused', async () => {
  const arrived = Promise.withResolvers<void>()
  const released = Promise.withResolvers<void>()
  const slow = replica(async () => {
    arrived.resolve()
    await released.promise
  })
  const fast = replica(async () => {})
  const first = slow.put(CALLER, ADMIN, `${KEY}/x.parquet`, Buffer.from('first'))
  await arrived.promise
  const second = await fast.put(CALLER, ADMIN, `${KEY}/x.parquet`, Buffer.from('second')).catch(codeOf)
  await fast.put(CALLER, ADMIN, `${KEY}/y.parquet`, Buffer.from('other'))
  released.resolve()
  await first
  expect(second).toBe('SlowDown')
  const stored = await bytesOf(catalog.objects, `${KEY}/x.parquet`)
  expect(Buffer.from(stored ?? []).toString()).toBe('first')
  const third = await fast.put(CALLER, ADMIN, `${KEY}/x.parquet`, Buffer.from('third')).catch(codeOf)
  expect(third).toBe('PreconditionFailed')
})

test('one of several replicas stores a key when all try at once', async () => {
  for (let round = 0; round < 5; round++) {
    const key = `${KEY}/round-${round}.parquet`
    const answers = await Promise.all(
      ['a', 'b', 'c'].map((body) =>
        replica(async () => {})
          .put(CALLER, ADMIN, key, Buffer.from(body))
          .then(() => body, codeOf),
      ),
    )
    const won = answers.filter((answer) => answer.length === 1)
    expect(won).toHaveLength(1)
    const stored = await bytesOf(catalog.objects, key)
    expect(Buffer.from(stored ?? []).toString()).toBe(won[0] ?? '')
  }
})
