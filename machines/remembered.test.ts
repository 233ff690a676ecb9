import { expect, test } from 'bun:test'
import { accepts, advance, restore, store } from './advance.ts'
import { remember } from './remembered.ts'
import { newRun, type RunEvent, type RunSnapshot, runMachine } from './run.ts'

const EVENTS: RunEvent[] = [
  { type: 'start' },
  { type: 'inputTaken' },
  { type: 'cancelRequested' },
  { type: 'timedOut' },
  ...[1, 2].flatMap((attempt): RunEvent[] => [
    { type: 'accepted', attempt },
    { type: 'refused', attempt },
    { type: 'entered', attempt, phase: 'executing' },
    { type: 'entered', attempt, phase: 'testing' },
    { type: 'executed', attempt, isBlocked: false, hasChanged: true },
    { type: 'executed', attempt, isBlocked: false, hasChanged: false },
    { type: 'executed', attempt, isBlocked: true, hasChanged: true },
    { type: 'executionFailed', attempt },
    { type: 'runnerLost', attempt, hasBegun: true, hasCompany: true },
    { type: 'runnerLost', attempt, hasBegun: true, hasCompany: false },
    { type: 'engineLost', attempt },
    { type: 'merged', attempt },
    { type: 'conflicted', attempt },
  ]),
]

test('what is remembered is what the machine answers, from every state that four events reach', () => {
  const remembered = remember(runMachine)
  let states: RunSnapshot[] = [newRun()]
  let moves = 0
  for (let depth = 0; depth < 4; depth++) {
    const reached: RunSnapshot[] = []
    for (const state of states)
      for (const event of EVENTS) {
        // Asked twice: the second answer is a remembered one.
        for (const answer of [remembered.move(state, event), remembered.move(state, event)]) {
          if (!accepts(state, event)) {
            expect(answer).toBeNull()
            continue
          }
          const { next, ...move } = advance(runMachine, state, event)
          expect(answer).toMatchObject(move)
          expect(store(answer?.next ?? newRun())).toEqual(store(next))
          moves += 1
        }
        if (accepts(state, event)) reached.push(advance(runMachine, state, event).next)
      }
    states = [...new Map(reached.map((state) => [JSON.stringify(store(state)), state])).values()]
  }
  expect(moves).toBeGreaterThan(100)
})

test('what was stored comes back to life the same, and goes on from there', () => {
  const remembered = remember(runMachine)
  const stored = store(advance(runMachine, newRun(), { type: 'start' }).next)
  const again = remembered.restore(JSON.parse(JSON.stringify(stored)))
  expect(store(again)).toEqual(store(restore(runMachine, stored)))
  expect(remembered.restore(JSON.parse(JSON.stringify(stored)))).toBe(again)
  expect(remembered.move(again, { type: 'accepted', attempt: 1 })?.to).toBe('running.rendering')
  expect(remembered.move(again, { type: 'accepted', attempt: 2 })).toBeNull()
})
