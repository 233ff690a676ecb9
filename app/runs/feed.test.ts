import { afterEach, describe, expect, test } from 'bun:test'
import type { RunStatus } from '../../machines/run.ts'
import { limits } from '../limits.ts'
import { makeRunFeeds, type RunFeeds } from './feed.ts'

type Line = { seq: number; timestamp: string; level: 'info'; message: string }

let feeds: RunFeeds
afterEach(() => feeds.stop())

/** A log in memory that counts what is asked of it. */
function logOf(status: RunStatus = 'running') {
  const log = { status: status as RunStatus, lines: [] as Line[], reads: 0, rows: 0, fails: false }
  feeds = makeRunFeeds({
    async tail(_, seq) {
      if (log.fails) throw new Error('no database')
      const lines = log.lines.filter((line) => line.seq > seq)
      log.reads += 1
      log.rows += lines.length
      return { state: { status: log.status, rows_written: 1, duration_ms: 2 }, lines }
    },
  })
  return {
    ...log,
    log,
    say(...messages: string[]) {
      for (const message of messages)
        log.lines.push({ seq: log.lines.length + 1, timestamp: 'now', level: 'info', message })
      feeds.wake('run')
    },
    end() {
      log.status = 'success'
      feeds.wake('run')
    },
  }
}

function follow(position = 0) {
  const stream = feeds.follow('run', position)
  if (stream === null) throw new Error('too many streams')
  return stream
}
const textOf = (stream: ReadableStream<Uint8Array>) => new Response(stream).text()
const messagesIn = (text: string) => [...text.matchAll(/"message":"([^"]*)"/g)].map((match) => match[1])

describe('a stream', () => {
  test('gives every line once, in order, and the status last', async () => {
    const run = logOf()
    run.say('a', 'b')
    const text = textOf(follow())
    run.say('c')
    run.end()
    const got = await text
    expect(messagesIn(got)).toEqual(['a', 'b', 'c'])
    expect(got.trimEnd().split('\n\n').at(-1)).toStartWith('event: status\ndata: {"status":"success"')
  })

  test('resumes after the line it is told', async () => {
    const run = logOf('success')
    run.say('a', 'b', 'c')
    expect(messagesIn(await textOf(follow(2)))).toEqual(['c'])
  })

  test('of a run in other letters is the same run', async () => {
    const run = logOf()
    const stream = feeds.follow('RUN', 0)
    run.say('a')
    run.end()
    expect(messagesIn(await new Response(stream).text())).toEqual(['a'])
  })

  test('that cannot be read says so and ends', async () => {
    const run = logOf()
    run.log.fails = true
    expect(await textOf(follow())).toContain('event: error')
  })
})

describe('many streams', () => {
  test('of one run read its lines together', async () => {
    const run = logOf()
    const texts = Array.from({ length: 50 }, () => textOf(follow()))
    await Promise.resolve()
    const before = run.log.reads
    run.say('a')
    run.end()
    for (const text of await Promise.all(texts)) expect(messagesIn(text)).toEqual(['a'])
    expect(run.log.reads - before).toBeLessThan(10)
  })

  test('are bounded, and each place is given back exactly once', async () => {
    const run = logOf()
    const open = () => feeds.follow('run', 0)
    const streams = Array.from({ length: limits.sseStreamsPerProcess }, open)
    expect(streams).not.toContain(null)
    expect(open()).toBeNull()
    run.end()
    // Ended by the feed with unread events, then left by the reader: one end.
    await Promise.all(streams.map((stream) => stream?.cancel()))
    await Promise.all(streams.map((stream) => stream?.cancel().catch(() => {})))
    const again = Array.from({ length: limits.sseStreamsPerProcess + 1 }, open)
    expect(again.filter((stream) => stream === null)).toHaveLength(1)
    await Promise.all(again.map((stream) => stream?.cancel()))
  })

  test('with one that does not read cost no more than without it', async () => {
    const run = logOf()
    const stalled = follow()
    run.say(...Array.from({ length: 200 }, () => 'x'.repeat(1_000)))
    const live = textOf(follow(200))
    const before = run.log.rows
    for (let n = 0; n < 20; n++) {
      run.say(`line ${n}`)
      await new Promise((resolve) => setImmediate(resolve))
    }
    run.end()
    expect(messagesIn(await live)).toHaveLength(20)
    expect(run.log.rows - before).toBeLessThan(500)
    expect(messagesIn(await textOf(stalled))).toHaveLength(220)
  })
})
