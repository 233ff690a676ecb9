import { expect, test } from 'bun:test'
import { create } from '@bufbuild/protobuf'
import { SubmitPipelineRequestSchema } from '../../../proto/gen/sluice/runner/v1/runner_pb.ts'
import { silent } from '../../core/testing.ts'
import { makeAttempts } from './attempts.ts'

const CONCURRENCY = 2

/** Attempts whose end and clean-up the test controls. */
function scripted({ seconds }: { seconds?: number } = {}) {
  const began: string[] = []
  const ends = new Map<string, { end(): void; fail(): void; clear(): void }>()
  const attempts = makeAttempts({
    concurrency: CONCURRENCY,
    seconds,
    log: silent,
    execute: ({ request: { runId }, signal }) => {
      began.push(runId)
      const gone = Promise.withResolvers<void>()
      const { promise, resolve, reject } = Promise.withResolvers<{ gone: Promise<void> }>()
      signal.addEventListener('abort', () => reject(signal.reason))
      ends.set(runId, {
        end: () => resolve({ gone: gone.promise }),
        fail: () => reject(new Error('it broke')),
        clear: gone.resolve,
      })
      return promise
    },
  })
  const submit = (runId: string, { isAlone = false } = {}) =>
    attempts.submit(create(SubmitPipelineRequestSchema, { runId, attempt: 1, isAlone }))
  const of = (runId: string) => {
    const its = ends.get(runId)
    if (its === undefined) throw new Error(`${runId} has not begun`)
    return its
  }
  return { attempts, began, submit, of }
}
/** Resolves when everything that can happen now has happened. */
const settled = () => new Promise((resolve) => setImmediate(resolve))

test('an attempt gets a freed slot at once and begins after clean-up', async () => {
  const { attempts, began, submit, of } = scripted()
  const first = submit('first')
  submit('second')
  await settled()
  expect([attempts.slots().freeSlots, submit('refused')]).toEqual([0, null])
  of('first').end()
  await settled()
  expect([first?.status, attempts.slots().freeSlots]).toEqual(['completed', 1])
  expect(submit('third')?.status).toBe('running')
  expect([attempts.slots().freeSlots, submit('refused')]).toEqual([0, null])
  await settled()
  expect(began).toEqual(['first', 'second'])
  of('first').clear()
  await first?.ended
  await settled()
  expect(began).toEqual(['first', 'second', 'third'])
})

test('an attempt cancelled before its turn leaves the turn to the next', async () => {
  const { began, submit, of } = scripted()
  for (const name of ['first', 'second']) submit(name)
  await settled()
  of('first').end()
  await settled()
  const waiting = submit('third')
  expect(await waiting?.cancel()).toBe(true)
  expect(waiting?.status).toBe('cancelled')
  submit('fourth')
  of('first').clear()
  await settled()
  expect(began).toEqual(['first', 'second', 'fourth'])
})

test('a failed attempt frees its slot', async () => {
  const { attempts, began, submit, of } = scripted()
  for (let turn = 0; turn < 3 * CONCURRENCY; turn++) {
    const attempt = submit(`${turn}`)
    await settled()
    of(`${turn}`).fail()
    await attempt?.ended
    expect(attempt?.status).toBe('failed')
  }
  expect([began.length, attempts.slots().freeSlots]).toEqual([3 * CONCURRENCY, CONCURRENCY])
})

test('an attempt that executes alone waits for others and admits none', async () => {
  const { attempts, began, submit, of } = scripted()
  submit('first')
  expect(submit('alone', { isAlone: true })?.status).toBe('running')
  await settled()
  expect([began, attempts.slots().freeSlots]).toEqual([['first'], 0])
  expect([submit('second'), submit('another', { isAlone: true })]).toEqual([null, null])
  of('first').end()
  await settled()
  // The clean-up of the first attempt is not done.
  expect(began).toEqual(['first'])
  of('first').clear()
  await settled()
  expect([began, submit('second')]).toEqual([['first', 'alone'], null])
  of('alone').end()
  await settled()
  expect(attempts.slots().freeSlots).toBe(CONCURRENCY)
  submit('third')
  submit('fourth')
  await settled()
  expect(began).toEqual(['first', 'alone'])
  of('alone').clear()
  await settled()
  expect(began).toEqual(['first', 'alone', 'third', 'fourth'])
})

test('the runner says why attempts wait while one executes alone', async () => {
  const { attempts, submit, of } = scripted()
  submit('first')
  expect(attempts.waitsFor()).toBe(null)
  submit('alone', { isAlone: true })
  expect(attempts.waitsFor()).toBe('a run executes alone')
  await settled()
  of('first').end()
  of('first').clear()
  await settled()
  of('alone').end()
  await settled()
  expect(attempts.waitsFor()).toBe(null)
})

test('the time limit of an attempt excludes its wait for other attempts', async () => {
  const { submit, of } = scripted({ seconds: 0.2 })
  const first = submit('first')
  const alone = submit('alone', { isAlone: true })
  await first?.ended
  expect([first?.error, alone?.status]).toEqual([
    'rendering: the run exceeded its time limit of 0.2 s (RUN_TIMEOUT)',
    'running',
  ])
  await settled()
  of('alone').end()
  of('alone').clear()
  await alone?.ended
  expect(alone?.status).toBe('completed')
})

test('cancelling an attempt that waits to execute alone frees all turns', async () => {
  const { attempts, began, submit, of } = scripted()
  submit('first')
  const alone = submit('alone', { isAlone: true })
  await settled()
  expect(await alone?.cancel()).toBe(true)
  submit('second')
  await settled()
  expect([began, attempts.slots().freeSlots]).toEqual([['first', 'second'], 0])
  for (const name of ['first', 'second']) {
    of(name).end()
    of(name).clear()
  }
  await settled()
  expect(attempts.slots().freeSlots).toBe(CONCURRENCY)
})
