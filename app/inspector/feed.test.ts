import { afterEach, describe, expect, test } from 'bun:test'
import { until } from '../../tools/kit/until.ts'
import { makeStreamSlots } from '../wire/stream-slots.ts'
import { type InspectorFeeds, makeInspectorFeeds } from './feed.ts'
import { type Snapshot, STEPS_MAX, type Step } from './schema.ts'

const PLACES = 250

let feeds: InspectorFeeds
afterEach(() => feeds.stop())

/** A run in memory that counts its reads. */
function runOf(state = 'pending.waiting') {
  const run = {
    state,
    live: true,
    steps: [] as Partial<Step>[],
    reads: 0,
    fails: false,
    text: '',
    onRead() {},
  }
  feeds = makeInspectorFeeds(
    {
      async snapshot() {
        if (run.fails) throw new Error('no database')
        run.reads += 1
        return {
          state: run.state,
          live: run.live,
          facts: { text: run.text },
          now: String(run.reads),
        } as unknown as Snapshot
      },
      async after(_machine, _id, after) {
        run.onRead()
        return run.steps.filter(({ id = 0 }) => id > after).slice(0, STEPS_MAX) as Step[]
      },
      latestSteps: async () => new Map(),
      movedSince: async () => ({ last: 0, machines: [] }),
    },
    makeStreamSlots({ streamsPerProcess: PLACES, streamsPerClient: PLACES }),
  )
  return {
    run,
    move(to: string, live = true) {
      run.steps.push({ id: run.steps.length + 1, to })
      run.state = to
      run.live = live
      feeds.wakeRun('id')
    },
  }
}

function follow(position = 0) {
  const stream = feeds.follow('run', 'ID', position, '')
  if (stream === null) throw new Error('too many streams')
  return stream
}
const textOf = (stream: ReadableStream<Uint8Array>) => new Response(stream).text()
const eventsIn = (text: string) =>
  [...text.matchAll(/event: (\w+)\ndata: (.*)\n/g)].map(([, name, data]) => [name, JSON.parse(data ?? '')])

describe('streams of one instance', () => {
  test('share reads, and get each step once and in order', async () => {
    const { run, move } = runOf()
    const texts = Promise.all(Array.from({ length: 200 }, () => textOf(follow())))
    await until(() => run.reads > 0)
    const before = run.reads
    move('pending.starting')
    await until(() => run.reads > before)
    move('success', false)
    for (const text of await texts) {
      const steps = eventsIn(text).filter(([name]) => name === 'transition')
      expect(steps.map(([, { to }]) => to)).toEqual(['pending.starting', 'success'])
      expect(eventsIn(text).at(-1)).toEqual([
        'snapshot',
        expect.objectContaining({ state: 'success', live: false }),
      ])
    }
    // The reads of two moves and of the regular refresh.
    expect(run.reads - before).toBeLessThan(20)
  })

  test('get a snapshot when its content changes, not only its time', async () => {
    const { run, move } = runOf()
    const text = textOf(follow())
    for (const content of ['', '', 'older runs', 'older runs']) {
      const before = run.reads
      run.text = content
      feeds.wakeRun('id')
      await until(() => run.reads > before)
    }
    move('success', false)
    const snapshots = eventsIn(await text).filter(([name]) => name === 'snapshot')
    expect(snapshots.map(([, { facts, live }]) => [facts.text, live])).toEqual([
      ['', true],
      ['older runs', true],
      ['older runs', false],
    ])
  })

  test('resume after the given step', async () => {
    const { move } = runOf()
    for (const to of ['pending.starting', 'running.rendering']) move(to)
    move('success', false)
    const steps = eventsIn(await textOf(follow(2))).filter(([name]) => name === 'transition')
    expect(steps.map(([, { id }]) => id)).toEqual([3])
  })

  test('miss no step when they begin during a read', async () => {
    const { run, move } = runOf()
    for (const to of ['pending.starting', 'running.rendering']) move(to)
    const first = textOf(follow(2))
    await until(() => run.reads > 0)
    const { promise: second, resolve } = Promise.withResolvers<string>()
    const begun = Promise.withResolvers<void>()
    run.onRead = () => {
      run.onRead = () => {}
      resolve(textOf(follow(0)))
      begun.resolve()
    }
    move('running.executing')
    await begun.promise
    move('success', false)
    const ids = (text: string) =>
      eventsIn(text).flatMap(([name, data]) => (name === 'transition' ? [data.id] : []))
    expect([ids(await first), ids(await second)]).toEqual([
      [3, 4],
      [1, 2, 3, 4],
    ])
  })

  test('send a history longer than one read completely', async () => {
    const { run, move } = runOf()
    const count = STEPS_MAX * 2 + 1
    run.steps = Array.from({ length: count - 1 }, (_, index) => ({ id: index + 1, to: 'running.waiting' }))
    move('success', false)
    const events = eventsIn(await textOf(follow(0)))
    expect(events.filter(([name]) => name === 'transition').map(([, { id }]) => id)).toEqual(
      Array.from({ length: count }, (_, index) => index + 1),
    )
    expect(events.at(-1)?.[0]).toBe('snapshot')
  })

  test('send an error and end if the instance is unreadable', async () => {
    const { run } = runOf()
    run.fails = true
    expect(eventsIn(await textOf(follow())).map(([name]) => name)).toEqual(['error'])
  })
})

test('streams are limited, and a cancelled stream frees its slot', async () => {
  runOf()
  const open = Array.from({ length: PLACES }, () => feeds.followList('draft', ''))
  expect(open).not.toContain(null)
  expect(feeds.followList('draft', '')).toBeNull()
  expect(feeds.follow('run', 'id', 0, '')).toBeNull()
  await open[0]?.cancel()
  expect(feeds.followList('draft', '')).not.toBeNull()
})

test('a stop ends all streams', async () => {
  runOf()
  const texts = [textOf(follow()), textOf(feeds.followList('run', '') as ReadableStream<Uint8Array>)]
  feeds.stop()
  expect(await Promise.all(texts)).toEqual([expect.any(String), expect.any(String)])
})
