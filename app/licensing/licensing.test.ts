import { afterAll, beforeEach, expect, setDefaultTimeout, test } from 'bun:test'
import { useDatabase } from '../../tools/service/database.ts'
import { recordingLog } from '../composition/test-app.ts'
import type { Clock } from '../core/clock.ts'
import { AppError } from '../core/errors.ts'
import type { Identity } from '../core/identity.ts'
import { type Licensing, makeLicensing } from './service.ts'

setDefaultTimeout(60_000)

const opened = useDatabase({ rawConnections: 6 })

const NOW = Date.parse('2026-06-01T00:00:00Z')
const DAY_MS = 86_400_000
let nowMs: number
let elapsedMs: number
const clock: Clock = { now: () => new Date(nowMs), elapsed: () => elapsedMs }
const { log, entries, messages } = recordingLog()
const all: Licensing[] = []
beforeEach(async () => {
  nowMs = NOW
  elapsedMs = 0
  entries.length = 0
  for (const licensing of all.splice(0)) licensing.stop()
  await opened.sql`truncate licensed_user`
})
afterAll(() => all.forEach((licensing) => void licensing.stop()))

function licensed(maxUsers: number, { admins = [] as string[], expiresAt = '2999-01-01T00:00:00Z' } = {}) {
  const license = { type: 'team', expiresAt, maxUsers }
  const licensing = makeLicensing({ license, sql: opened.sql, clock, log, admins })
  all.push(licensing)
  return licensing
}

const user = (userId: string): Identity => ({ kind: 'user', userId, name: userId, roles: [] })

async function isAdmitted(licensing: Licensing, userId: string) {
  try {
    await licensing.admit(user(userId))
    return true
  } catch (error) {
    expect(error).toBeInstanceOf(AppError)
    expect(error).toMatchObject({ status: 403 })
    return false
  }
}

const age = (userId: string, days: number) =>
  opened.sql`update licensed_user set seen_at = now() - make_interval(days => ${days}) where user_id = ${userId}`

test('the first users get the slots, the next user is 403', async () => {
  const licensing = licensed(2)
  for (const userId of ['ada', 'bob', 'ada'])
    expect([userId, await isAdmitted(licensing, userId)]).toEqual([userId, true])
  await expect((async () => licensing.admit(user('eve')))()).rejects.toThrow(
    'the licence allows 2 users, and that many others were active in the last 30 days',
  )
  expect(await isAdmitted(licensing, 'bob')).toBe(true)
})

test('concurrent users on two replicas do not exceed the slots', async () => {
  const replicas = [licensed(5), licensed(5)]
  const answers = await Promise.all(
    Array.from({ length: 40 }, (_, n) =>
      isAdmitted(replicas[n % 2] ?? expect.unreachable(), `user ${n >> 1}`),
    ),
  )
  // Each user called both replicas.
  expect(answers.filter((is) => is)).toHaveLength(10)
  expect(await opened.sql`select 1 from licensed_user`).toHaveLength(5)
})

test('requests of a user with a slot cause no statement for an hour', async () => {
  const licensing = licensed(1)
  expect(await isAdmitted(licensing, 'ada')).toBe(true)
  expect(licensing.admit(user('ada'))).toBeUndefined()
  elapsedMs += 3_600_000
  expect(licensing.admit(user('ada'))).toBeInstanceOf(Promise)
})

test('a slot is free again after 30 days, not earlier', async () => {
  const licensing = licensed(1)
  expect(await isAdmitted(licensing, 'ada')).toBe(true)
  await age('ada', 29)
  expect(await isAdmitted(licensed(1), 'bob')).toBe(false)
  await age('ada', 31)
  expect(await isAdmitted(licensing, 'bob')).toBe(true)
  expect(await isAdmitted(licensed(1), 'ada')).toBe(false)
})

test('admits a refused user soon after a slot is free', async () => {
  const licensing = licensed(1)
  await isAdmitted(licensing, 'ada')
  expect(await isAdmitted(licensing, 'bob')).toBe(false)
  await age('ada', 31)
  expect(await isAdmitted(licensing, 'bob')).toBe(false)
  elapsedMs += 10_000
  expect(await isAdmitted(licensing, 'bob')).toBe(true)
})

test('admits a named administrator beyond the limit', async () => {
  const licensing = licensed(1, { admins: ['root'] })
  expect(await isAdmitted(licensing, 'ada')).toBe(true)
  expect(await isAdmitted(licensing, 'root')).toBe(true)
  expect(await isAdmitted(licensing, 'bob')).toBe(false)
})

test('a licence that has ended admits no user, even with a slot', async () => {
  const licensing = licensed(5, { expiresAt: '2026-06-02T00:00:00Z', admins: ['root'] })
  expect(await isAdmitted(licensing, 'ada')).toBe(true)
  expect(licensing.hasEnded()).toBe(false)
  nowMs += DAY_MS
  expect(licensing.hasEnded()).toBe(true)
  expect(() => licensing.admit(user('ada'))).toThrow('the licence ended on 2026-06-02T00:00:00Z')
  expect(await isAdmitted(licensing, 'root')).toBe(false)
})

test('logs a warning in the last 30 days and after the end', () => {
  licensed(5, { expiresAt: '2026-07-02T00:00:00Z' })
  expect(messages()).toEqual([])
  licensed(5, { expiresAt: '2026-06-30T12:00:00Z' })
  expect(messages()).toEqual(['the licence ends in 30 days: set a new licence, or users are refused'])
  nowMs += 60 * DAY_MS
  licensed(5, { expiresAt: '2026-06-30T12:00:00Z' })
  expect(messages()[1]).toBe('the licence has ended, and users are refused: set a new licence')
})
