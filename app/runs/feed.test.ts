import { afterEach, describe, expect, test } from 'bun:test'
import type { RunStatus } from '../../machines/run.ts'
import { makeStreamSlots } from '../wire/stream-slots.ts'
import { makeRunFeeds, type RunFeeds } from './feed.ts'

type Line = { seq: number; timestamp: string; level: 'info'; message: string }

const PLACES = 1_000
const PLACES_OF_CLIENT = 10

let feeds: RunFeeds
afterEach(() => feeds.stop())

/** A log in memory that counts its reads. */
function logOf(status: RunStatus = 'running') {
  const log = { status: status as RunStatus, lines: [] as Line[], reads: 0, rows: 0, fails: false }
  feeds = makeRunFeeds(
    {
      async tail(_, seq, linesMax) {
        if (log.fails) throw new Error('no database')
        const lines = log.lines.filter((line) => line.seq > seq).slice(0, linesMax)
        log.reads += 1
        log.rows += lines.length
        return { state: { status: log.status, rows_written: 1, duration_ms: 2 }, lines }
      },
    },
    makeStreamSlots({ streamsPerProcess: PLACES, streamsPerClient: PLACES_OF_CLIENT }),
  )
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
  const stream = feeds.follow('run', position, '')
  if (stream === null) throw new Error('too many streams')
  return stream
}
const textOf = (stream: ReadableStream<Uint8Array>) => new Response(stream).text()
/** Reads chunk by chunk, with a turn of the event loop before each. */
async function slowTextOf(stream: ReadableStream<Uint8Array>) {
  let text = ''
  for await (const chunk of stream) {
    text += new TextDecoder().decode(chunk)
    await new Promise((resolve) => setImmediate(resolve))
  }
  return text
}
/** Waits a few turns of the event loop, until all pending work is done. */
async function settled() {
  for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => setImmediate(resolve))
}
const expected = (first: number, last: number) =>
  Array.from({ length: last - first + 1 }, (_, n) => `line ${first + n}`)
const messagesIn = (text: string) => [...text.matchAll(/"message":"([^"]*)"/g)].map((match) => match[1])

describe('a stream', () => {
  test('sends every line once and in order, and the status last', async () => {
    const run = logOf()
    run.say('a', 'b')
    const text = textOf(follow())
    run.say('c')
    run.end()
    const got = await text
    expect(messagesIn(got)).toEqual(['a', 'b', 'c'])
    expect(got.trimEnd().split('\n\n').at(-1)).toStartWith('event: status\ndata: {"status":"success"')
  })

  test('resumes after the given line', async () => {
    const run = logOf('success')
    run.say('a', 'b', 'c')
    expect(messagesIn(await textOf(follow(2)))).toEqual(['c'])
  })

  test('ignores the case of the run id', async () => {
    const run = logOf()
    const stream = feeds.follow('RUN', 0, '')
    run.say('a')
    run.end()
    expect(messagesIn(await new Response(stream).text())).toEqual(['a'])
  })

  test('sends an error event and ends if the log is unreadable', async () => {
    const run = logOf()
    run.log.fails = true
    expect(await textOf(follow())).toContain('event: error')
  })
})

describe('many streams', () => {
  test('share the reads of one run', async () => {
    const run = logOf()
    const texts = Array.from({ length: 50 }, () => textOf(follow()))
    await Promise.resolve()
    const before = run.log.reads
    run.say('a')
    run.end()
    for (const text of await Promise.all(texts)) expect(messagesIn(text)).toEqual(['a'])
    expect(run.log.reads - before).toBeLessThan(10)
  })

  test('are bounded, and each slot is released exactly once', async () => {
    const run = logOf()
    const open = () => feeds.follow('run', 0, '')
    const streams = Array.from({ length: PLACES }, open)
    expect(streams).not.toContain(null)
    expect(open()).toBeNull()
    run.end()
    // The feed ends a stream with unread events, then its reader cancels it: the slot is released once.
    await Promise.all(streams.map((stream) => stream?.cancel()))
    await Promise.all(streams.map((stream) => stream?.cancel().catch(() => {})))
    const again = Array.from({ length: PLACES + 1 }, open)
    expect(again.filter((stream) => stream === null)).toHaveLength(1)
    await Promise.all(again.map((stream) => stream?.cancel()))
  })

  test('have a separate limit for each client', () => {
    logOf()
    const streams = Array.from({ length: PLACES_OF_CLIENT }, () => feeds.follow('run', 0, '10.0.0.1'))
    expect(streams).not.toContain(null)
    expect(feeds.follow('run', 0, '10.0.0.1')).toBeNull()
    expect(feeds.follow('run', 0, '10.0.0.2')).not.toBeNull()
  })

  test('resume shortly after a cut without reading missed lines again', async () => {
    const run = logOf()
    const stays = textOf(follow())
    run.say(...Array.from({ length: 100 }, (_, n) => `line ${n + 1}`))
    await settled()
    const before = run.log.rows
    const back = Array.from({ length: 50 }, () => textOf(follow(60)))
    await settled()
    expect(run.log.rows).toBe(before)
    run.end()
    for (const text of await Promise.all(back)) expect(messagesIn(text)).toEqual(expected(61, 100))
    expect(messagesIn(await stays)).toEqual(expected(1, 100))
  })

  test('each get every line once, for any start and reading speed', async () => {
    const run = logOf()
    run.say(...Array.from({ length: 3_000 }, (_, n) => `line ${n + 1}`))
    const begins = [0, 10, 499, 500, 501, 1_700, 2_744, 2_999, 3_000]
    const quick = begins.map((position) => textOf(follow(position)))
    const slow = begins.map((position) => slowTextOf(follow(position)))
    for (let n = 3_001; n <= 3_100; n++) {
      run.say(`line ${n}`)
      if (n % 10 === 0) await settled()
    }
    run.end()
    const texts = await Promise.all([...quick, ...slow])
    for (const [n, text] of texts.entries()) {
      expect(messagesIn(text)).toEqual(expected((begins[n % begins.length] ?? 0) + 1, 3_100))
      expect(text.trimEnd().split('\n\n').at(-1)).toStartWith('event: status')
    }
  })

  test('read no more rows because of one stalled reader', async () => {
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
