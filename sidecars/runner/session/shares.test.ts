import { expect, test } from 'bun:test'
import { inShares, NoTimeLeft } from './shares.ts'

const never = new AbortController().signal

/** A clock that advances only while an item works. */
function makeTime() {
  let now = 0
  const timeouts: { at: number; over: AbortController }[] = []
  return {
    time: {
      now: () => now,
      timeout(ms: number) {
        const over = new AbortController()
        timeouts.push({ at: now + ms, over })
        return over.signal
      },
    },
    /** Works for `ms`, or until it is interrupted. */
    async take(ms: number, signal: AbortSignal) {
      const end = now + ms
      for (const { at, over } of timeouts.toSorted((a, b) => a.at - b.at)) {
        if (at >= end || signal.aborted) break
        now = Math.max(now, at)
        over.abort()
      }
      signal.throwIfAborted()
      now = end
    },
  }
}

const LATE = 'too late'

/** `readyNeeds`: the duration of `ready` before each turn. */
async function results(needs: Record<string, number>, ms: number, readyNeeds: number[] = []) {
  const { time, take } = makeTime()
  const begun: string[] = []
  const found = await inShares(
    Object.keys(needs),
    { ms, signal: never, time },
    {
      ready: (signal) => take(readyNeeds.shift() ?? 0, signal),
      async work(name, signal) {
        begun.push(name)
        await take(needs[name] ?? 0, signal)
        return 'done'
      },
      late: (_, spent) => `${LATE} after ${spent}`,
    },
  )
  return { found, begun, took: time.now() }
}

test('an endless item is late while all other items have results', async () => {
  const { found, took } = await results({ a: 1, stuck: Infinity, b: 1, stuckToo: Infinity, c: 1 }, 60)
  expect(found).toEqual([
    'done',
    expect.stringMatching(/^too late/),
    'done',
    expect.stringMatching(/^too late/),
    'done',
  ])
  expect(took).toBeLessThanOrEqual(60)
})

test('an item that exceeds its share gets the time others leave', async () => {
  const { found, begun } = await results({ slow: 35, a: 1, b: 1 }, 60)
  expect(found).toEqual(['done', 'done', 'done'])
  expect(begun).toEqual(['slow', 'a', 'b', 'slow'])
})

test('a single item gets all the time in one turn', async () => {
  expect(await results({ slow: 59 }, 60)).toMatchObject({ found: ['done'], begun: ['slow'] })
  expect(await results({ slow: 61 }, 60)).toMatchObject({
    found: [`${LATE} after 60`],
    begun: ['slow'],
    took: 60,
  })
})

test('the time of `ready` counts for all items, not for one share', async () => {
  expect(await results({ a: 9, b: 9, c: 9 }, 60, [20, 5, 6])).toMatchObject({
    found: ['done', 'done', 'done'],
    begun: ['a', 'b', 'c'],
    took: 58,
  })
  expect(await results({ a: 1, stuck: Infinity, b: 1 }, 60, [0, 0, 28])).toMatchObject({
    found: ['done', expect.stringMatching(/^too late/), 'done'],
    begun: ['a', 'stuck', 'b', 'stuck'],
  })
  expect(await results({ stuck: Infinity, a: 1 }, 60, [0, 1, Infinity])).toMatchObject({
    found: [`${LATE} after 30`, 'done'],
    took: 60,
  })
})

test('an item without a turn causes NoTimeLeft instead of a late result', async () => {
  await expect(results({ a: 1 }, 60, [Infinity])).rejects.toBeInstanceOf(NoTimeLeft)
  await expect(results({ stuck: Infinity, a: 1 }, 60, [0, Infinity])).rejects.toBeInstanceOf(NoTimeLeft)
})

test('an aborted signal and unexpected errors end the work', async () => {
  const gone = new AbortController()
  const work = async (_: string, signal: AbortSignal) => {
    gone.abort(new Error('gone'))
    signal.throwIfAborted()
  }
  const late = () => {}
  const { time } = makeTime()
  const shares = { ms: 9, signal: never, time }
  await expect(inShares(['a'], { ...shares, signal: gone.signal }, { work, late })).rejects.toThrow('gone')
  const broken = () => Promise.reject(new Error('broken'))
  await expect(inShares(['a'], shares, { work: broken, late })).rejects.toThrow('broken')
  const ready = () => Promise.reject(new Error('not to be had'))
  await expect(inShares(['a'], shares, { ready, work, late })).rejects.toThrow('not to be had')
})
