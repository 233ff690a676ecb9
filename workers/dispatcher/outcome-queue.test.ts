import { expect, test } from 'bun:test'
import type { RunId } from '../../app/core/ids.ts'
import type { Outcome } from '../../app/runs/outcome.ts'
import type { LogLine } from '../../app/runs/store/logs.ts'
import { makeOutcomeQueue } from './outcome-queue.ts'

const idOf = (run: number) => `run-${run}` as RunId
const accepted = (run: number, attempt = 1): Outcome => ({
  runId: idOf(run),
  attempt,
  kind: 'accepted',
  runnerBoot: 'boot',
})
const failed = (run: number): Outcome => ({ runId: idOf(run), attempt: 1, kind: 'failed', error: 'no' })
const line = (run: number): LogLine => ({
  runId: idOf(run),
  seq: 1,
  at: new Date(0),
  level: 'info',
  message: 'a line',
})
const holding = (outcomes: Outcome[], lines: LogLine[] = []) => {
  const queue = makeOutcomeQueue()
  for (const one of outcomes) queue.add(one)
  for (const one of lines) queue.appendLine(one)
  return queue
}

test('acceptances precede other news, which follows in its order', () => {
  const queue = holding([accepted(1), failed(1), failed(2), accepted(3)], [line(1), line(4)])
  expect(queue.drainAccepted()).toEqual({ outcomes: [accepted(1), accepted(3)], lines: [] })
  expect(queue.drainAccepted().outcomes).toEqual([])
  expect(queue.drain()).toEqual({ outcomes: [failed(1), failed(2)], lines: [line(1), line(4)] })
  expect(queue.isEmpty()).toBe(true)
})

test('an acceptance that was put back is first again', () => {
  const queue = holding([accepted(1), failed(1)])
  queue.putBack(queue.drainAccepted())
  expect(queue.drain().outcomes).toEqual([accepted(1), failed(1)])
})

test('acceptances of later attempts are not stored separately', () => {
  expect(holding([accepted(1, 2)]).drainAccepted().outcomes).toEqual([])
})

test('a long queue does not store acceptances separately', () => {
  const both = Array.from({ length: 32 }, (_, n) => [accepted(n), failed(n)]).flat()
  const queue = holding(both)
  expect(queue.drainAccepted().outcomes).toEqual([])
  expect(queue.drain().outcomes).toEqual(both)
})
