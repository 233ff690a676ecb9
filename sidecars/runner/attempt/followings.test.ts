import { afterEach, beforeEach, expect, test } from 'bun:test'
import { create } from '@bufbuild/protobuf'
import { SubmitPipelineRequestSchema } from '../../../proto/gen/sluice/runner/v1/runner_pb.ts'
import { silent } from '../../core/testing.ts'
import { type Attempts, makeAttempts, type Work } from './attempts.ts'
import { type EventBatch, followLimits, makeFollowings, type Position, TooMuch } from './followings.ts'

let work: Map<string, { work: Work; end(): void }>
let attempts: Attempts
let followings: ReturnType<typeof makeFollowings>
let leave: AbortController

beforeEach(() => {
  work = new Map()
  attempts = makeAttempts({
    concurrency: 100,
    seconds: 3_600,
    log: silent,
    execute: (its) =>
      new Promise((resolve) => {
        const end = () => resolve({ gone: Promise.resolve() })
        work.set(`${its.request.runId}:${its.request.attempt}`, { work: its, end })
      }),
  })
  followings = makeFollowings(attempts)
  leave = new AbortController()
})
afterEach(() => leave.abort())

/** Submits an attempt, waits until it begins, and returns the position of its reader. */
async function submitted(runId: string): Promise<Position> {
  attempts.submit(create(SubmitPipelineRequestSchema, { runId, attempt: 1 }))
  await new Promise((resolve) => setImmediate(resolve))
  return { handle: `${runId}:1`, afterSeq: 0 }
}
const of = ({ handle }: Position) => {
  const its = work.get(handle)
  if (its === undefined) throw new Error('no such attempt')
  return its
}
const say = (at: Position, ...lines: string[]) => {
  for (const line of lines) of(at).work.log.write('info', line)
}

function follow(streamId: string, positions: Position[], replaces = '') {
  const stream = followings.follow(streamId, positions, { replaces, signal: leave.signal })
  const next = async (): Promise<EventBatch[] | null | 'ended'> => {
    const { value, done } = await stream.next()
    return done ? 'ended' : value
  }
  return { next, stream }
}
const textsOf = (news: EventBatch[] | null | 'ended', at: Position) =>
  Array.isArray(news)
    ? news.flatMap(({ handle, lines }) => (handle === at.handle ? lines.map((line) => line.message) : []))
    : []

test('one stream sends a heartbeat, then lines, phases and ends of attempts', async () => {
  const [one, two] = [await submitted('one'), await submitted('two')]
  const { next } = follow('s', [one, two])
  expect(await next()).toBeNull()
  of(one).work.enter('executing')
  say(one, 'a', 'b')
  say(two, 'c')
  const news = await next()
  expect(news).toMatchObject([
    { handle: 'one:1', phases: ['executing'], end: null },
    { handle: 'two:1', phases: [], end: null },
  ])
  expect([textsOf(news, one), textsOf(news, two)]).toEqual([['a', 'b'], ['c']])
  of(one).end()
  expect(await next()).toMatchObject([{ handle: 'one:1', lines: [], end: { status: 'completed' } }])
  say(two, 'd')
  expect(await next()).toMatchObject([{ handle: 'two:1', end: null }])
})

test('lines written within a moment are sent together', async () => {
  const one = await submitted('one')
  const { next } = follow('s', [one])
  await next()
  const heard = next()
  for (const line of ['a', 'b', 'c']) {
    say(one, line)
    await new Promise((resolve) => setImmediate(resolve))
  }
  expect(textsOf(await heard, one)).toEqual(['a', 'b', 'c'])
})

test('attempts can be added to an open stream and to no other', async () => {
  const { next } = follow('s', [])
  await next()
  const late = await submitted('late')
  say(late, 'before')
  expect(followings.add('another', [late])).toBe(false)
  expect(followings.add('s', [late])).toBe(true)
  expect(textsOf(await next(), late)).toEqual(['before'])
})

test('an unknown handle is reported as unknown', async () => {
  const { next } = follow('s', [{ handle: 'gone:1', afterSeq: 3 }])
  await next()
  expect(await next()).toMatchObject([{ handle: 'gone:1', end: 'unknown' }])
})

test('a returning reader continues at its position and ends its old stream', async () => {
  const one = await submitted('one')
  say(one, 'a', 'b', 'c')
  const before = follow('before', [one])
  await before.next()
  expect(textsOf(await before.next(), one)).toEqual(['a', 'b', 'c'])
  const after = follow('after', [{ ...one, afterSeq: 2 }], 'before')
  await after.next()
  expect(textsOf(await after.next(), one)).toEqual(['c'])
  expect(await before.next()).toBe('ended')
  expect(followings.add('before', [one])).toBe(false)
})

test('an attempt with many lines takes turns with the others', async () => {
  const [chatty, quiet] = [await submitted('chatty'), await submitted('quiet')]
  const { next } = follow('s', [chatty, quiet])
  await next()
  say(chatty, ...Array.from({ length: 100 }, () => 'x'.repeat(2_000)))
  say(quiet, 'I am here')
  const news = await next()
  const handles = Array.isArray(news) ? news.map(({ handle }) => handle) : []
  expect(handles.indexOf('quiet:1')).toBe(1)
  expect(textsOf(news, quiet)).toEqual(['I am here'])
  const turn = Array.isArray(news) ? news[0]?.lines.reduce((sum, { bytes }) => sum + bytes, 0) : 0
  expect(turn).toBeGreaterThan(0)
  expect(turn).toBeLessThanOrEqual(followLimits.turnBytes)
})

test('a full window waits until the reader confirms its stored lines', async () => {
  const [chatty, quiet] = [await submitted('chatty'), await submitted('quiet')]
  const { next } = follow('s', [chatty, quiet])
  await next()
  const said = Array.from({ length: 1_000 }, (_, n) => `${n} ${'x'.repeat(1_000)}`)
  say(chatty, ...said)
  of(chatty).end()
  const heard: string[] = []
  let stored = 0
  for (let hasEnded = false; !hasEnded; ) {
    // The inner loop reads until the chatty attempt waits. The quiet attempt is heard even then.
    for (let bytes = 0; ; ) {
      say(quiet, 'still here')
      const news = await next()
      expect(textsOf(news, quiet)).toEqual(['still here'])
      const lines = textsOf(news, chatty)
      heard.push(...lines)
      hasEnded = Array.isArray(news) && news.some(({ handle, end }) => handle === 'chatty:1' && end !== null)
      bytes += lines.reduce((sum, line) => sum + line.length, 0)
      expect(bytes).toBeLessThanOrEqual(followLimits.windowBytes)
      if (lines.length === 0 || hasEnded) break
    }
    expect(heard.length).toBeGreaterThan(stored)
    stored = heard.length
    followings.add('s', [{ ...chatty, afterSeq: stored }])
  }
  expect(heard).toEqual(said)
})

test('streams, and attempts on each stream, are limited', async () => {
  const open = Array.from({ length: followLimits.streams }, (_, n) => follow(`s${n}`, []))
  for (const { next } of open) await next()
  await expect(follow('one more', []).next()).rejects.toThrow(TooMuch)
  const [first] = open
  await first?.stream.return(undefined)
  expect(await follow('one more', []).next()).toBeNull()
  const many = Array.from({ length: followLimits.attemptsPerStream + 1 }, (_, n) => ({
    handle: `${n}:1`,
    afterSeq: 0,
  }))
  expect(() => followings.add('s1', many)).toThrow(TooMuch)
})

test('a full stream still accepts confirmations of stored lines', async () => {
  const one = await submitted('one')
  const fill = Array.from({ length: followLimits.attemptsPerStream - 1 }, (_, n) => ({
    handle: `${n}:1`,
    afterSeq: 0,
  }))
  const { next } = follow('s', [one, ...fill])
  expect(await next()).toBeNull()
  expect(() => followings.add('s', [{ handle: 'another:1', afterSeq: 0 }])).toThrow(TooMuch)
  expect(followings.add('s', [one])).toBe(true)
})
