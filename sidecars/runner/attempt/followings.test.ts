import { afterEach, beforeEach, expect, test } from 'bun:test'
import { create } from '@bufbuild/protobuf'
import { SubmitPipelineRequestSchema } from '../../../proto/gen/sluice/runner/v1/runner_pb.ts'
import { silent } from '../../core/testing.ts'
import { type Attempts, type ExecutionContext, makeAttempts } from './attempts.ts'
import { type EventBatch, followLimits, makeFollowings, type Position, TooMuch } from './followings.ts'

let work: Map<string, { work: ExecutionContext; end(): void }>
let attempts: Attempts
let followings: ReturnType<typeof makeFollowings>
let abort: AbortController

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
  abort = new AbortController()
})
afterEach(() => abort.abort())

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
const writeLines = (at: Position, ...lines: string[]) => {
  for (const line of lines) of(at).work.log.write('info', line)
}

function follow(streamId: string, positions: Position[], replaces = '') {
  const stream = followings.follow(streamId, positions, { replaces, signal: abort.signal })
  const next = async (): Promise<EventBatch[] | null | 'ended'> => {
    const { value, done } = await stream.next()
    return done ? 'ended' : value
  }
  return { next, stream }
}
const textsOf = (batch: EventBatch[] | null | 'ended', at: Position) =>
  Array.isArray(batch)
    ? batch.flatMap(({ handle, lines }) => (handle === at.handle ? lines.map((line) => line.message) : []))
    : []

test('one stream sends a heartbeat, then lines, phases and ends of attempts', async () => {
  const [one, two] = [await submitted('one'), await submitted('two')]
  const { next } = follow('s', [one, two])
  expect(await next()).toBeNull()
  of(one).work.enter('executing')
  writeLines(one, 'a', 'b')
  writeLines(two, 'c')
  const batch = await next()
  expect(batch).toMatchObject([
    { handle: 'one:1', phases: ['executing'], end: null },
    { handle: 'two:1', phases: [], end: null },
  ])
  expect([textsOf(batch, one), textsOf(batch, two)]).toEqual([['a', 'b'], ['c']])
  of(one).end()
  expect(await next()).toMatchObject([{ handle: 'one:1', lines: [], end: { status: 'completed' } }])
  writeLines(two, 'd')
  expect(await next()).toMatchObject([{ handle: 'two:1', end: null }])
})

test('lines written within a moment are sent together', async () => {
  const one = await submitted('one')
  const { next } = follow('s', [one])
  await next()
  const batch = next()
  for (const line of ['a', 'b', 'c']) {
    writeLines(one, line)
    await new Promise((resolve) => setImmediate(resolve))
  }
  expect(textsOf(await batch, one)).toEqual(['a', 'b', 'c'])
})

test('attempts can be added to an open stream and to no other', async () => {
  const { next } = follow('s', [])
  await next()
  const late = await submitted('late')
  writeLines(late, 'before')
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
  writeLines(one, 'a', 'b', 'c')
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
  writeLines(chatty, ...Array.from({ length: 100 }, () => 'x'.repeat(2_000)))
  writeLines(quiet, 'I am here')
  const batch = await next()
  const handles = Array.isArray(batch) ? batch.map(({ handle }) => handle) : []
  expect(handles.indexOf('quiet:1')).toBe(1)
  expect(textsOf(batch, quiet)).toEqual(['I am here'])
  const turn = Array.isArray(batch) ? batch[0]?.lines.reduce((sum, { bytes }) => sum + bytes, 0) : 0
  expect(turn).toBeGreaterThan(0)
  expect(turn).toBeLessThanOrEqual(followLimits.turnBytes)
})

test('a full window waits until the reader confirms its stored lines', async () => {
  const [chatty, quiet] = [await submitted('chatty'), await submitted('quiet')]
  const { next } = follow('s', [chatty, quiet])
  await next()
  const written = Array.from({ length: 1_000 }, (_, n) => `${n} ${'x'.repeat(1_000)}`)
  writeLines(chatty, ...written)
  of(chatty).end()
  const received: string[] = []
  let stored = 0
  for (let hasEnded = false; !hasEnded; ) {
    // The inner loop reads until the chatty attempt waits. The quiet attempt sends its lines even then.
    for (let bytes = 0; ; ) {
      writeLines(quiet, 'still here')
      const batch = await next()
      expect(textsOf(batch, quiet)).toEqual(['still here'])
      const lines = textsOf(batch, chatty)
      received.push(...lines)
      hasEnded =
        Array.isArray(batch) && batch.some(({ handle, end }) => handle === 'chatty:1' && end !== null)
      bytes += lines.reduce((sum, line) => sum + line.length, 0)
      expect(bytes).toBeLessThanOrEqual(followLimits.windowBytes)
      if (lines.length === 0 || hasEnded) break
    }
    expect(received.length).toBeGreaterThan(stored)
    stored = received.length
    followings.add('s', [{ ...chatty, afterSeq: stored }])
  }
  expect(received).toEqual(written)
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
