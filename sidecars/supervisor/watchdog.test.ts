import { expect, test } from 'bun:test'
import { until } from '../../tools/kit/until.ts'
import { watch } from './watchdog.ts'

const TIMES = { answerMs: 20, lateMs: 1_000 }
const never = (signal: AbortSignal) =>
  new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)))

test('three missed answers in a row end a process', async () => {
  const answers = ['yes', 'no', 'no', 'yes', 'no', 'no', 'no']
  let asked = 0
  const silent: number[] = []
  const stop = watch({
    times: TIMES,
    ask: (signal) => (answers[asked++] === 'yes' ? Promise.resolve() : never(signal)),
    onSilent: (seconds) => silent.push(seconds),
  })
  await until(() => silent.length > 0)
  expect(asked).toBe(answers.length)
  stop()
})

test('a process that has never answered is still starting', async () => {
  let asked = 0
  const silent: number[] = []
  const stop = watch({
    times: TIMES,
    ask: (signal) => {
      asked += 1
      return never(signal)
    },
    onSilent: (seconds) => silent.push(seconds),
  })
  await until(() => asked > 6)
  stop()
  expect(silent).toEqual([])
})

test('a question during which the asker was paused does not count', async () => {
  let asked = 0
  const silent: number[] = []
  const stop = watch({
    times: { answerMs: 20, lateMs: 10 },
    ask: async () => {
      asked += 1
      if (asked === 1) return
      // The whole process stands still, like a paused machine.
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 60)
      throw new Error('no answer')
    },
    onSilent: (seconds) => silent.push(seconds),
  })
  await until(() => asked > 6)
  stop()
  expect(silent).toEqual([])
})
