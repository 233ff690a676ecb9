import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { accepts, advance, pathOf } from './advance.ts'
import {
  executesAlone,
  LOST_TOGETHER_BEFORE_ALONE,
  MAX_CONFLICTS,
  MAX_LOST_ALONE,
  MAX_LOST_ENGINES,
  MAX_LOST_RUNNERS,
  newRun,
  type RunEvent,
  type RunSnapshot,
  runColumns,
  runMachine,
} from './run.ts'
import { expectMove, play } from './test-paths.ts'

const start: RunEvent = { type: 'start' }
const cancel: RunEvent = { type: 'cancelRequested' }
const timedOut: RunEvent = { type: 'timedOut' }
const of = (attempt: number) => ({
  accepted: { type: 'accepted', attempt } as RunEvent,
  refused: { type: 'refused', attempt } as RunEvent,
  executing: { type: 'entered', attempt, phase: 'executing' } as RunEvent,
  testing: { type: 'entered', attempt, phase: 'testing' } as RunEvent,
  clear: { type: 'executed', attempt, isBlocked: false, hasChanged: true } as RunEvent,
  blocked: { type: 'executed', attempt, isBlocked: true, hasChanged: true } as RunEvent,
  blockedUnchanged: { type: 'executed', attempt, isBlocked: true, hasChanged: false } as RunEvent,
  unchanged: { type: 'executed', attempt, isBlocked: false, hasChanged: false } as RunEvent,
  failed: { type: 'executionFailed', attempt, maxRetries: 0 } as RunEvent,
  failedOnce: { type: 'executionFailed', attempt, maxRetries: 1 } as RunEvent,
  lost: { type: 'runnerLost', attempt, hasBegun: true, hasCompany: false } as RunEvent,
  lostTogether: { type: 'runnerLost', attempt, hasBegun: true, hasCompany: true } as RunEvent,
  lostUnbegun: { type: 'runnerLost', attempt, hasBegun: false, hasCompany: false } as RunEvent,
  engineLost: { type: 'engineLost', attempt } as RunEvent,
  merged: { type: 'merged', attempt } as RunEvent,
  conflicted: { type: 'conflicted', attempt } as RunEvent,
})
const first = of(1)

function played(...events: RunEvent[]) {
  const { snapshot, effects } = play(runMachine, newRun(), events)
  return { snapshot, effects, state: pathOf(snapshot.value), ...runColumns(snapshot) }
}

const STATES: Record<string, RunEvent[]> = {
  'pending.waiting': [],
  'pending.starting': [start],
  'running.rendering': [start, first.accepted],
  'running.executing': [start, first.accepted, first.executing],
  'running.testing': [start, first.accepted, first.testing],
  'running.merging': [start, first.accepted, first.testing, first.clear],
  'running.waiting': [start, first.accepted, first.lost],
  success: [start, first.accepted, first.testing, first.clear, first.merged],
  failed: [start, first.accepted, first.failed],
  cancelled: [cancel],
}

/** The next state and the effects for every state and event. An event without an entry is refused. */
type Row = Partial<Record<keyof typeof first | 'start' | 'cancel' | 'timedOut', [string, ...string[]]>>
const whileAttempting: Row = {
  clear: ['running.merging', 'mergeBranch'],
  unchanged: ['success', 'closeBranch', 'announce'],
  blocked: ['failed', 'closeBranch', 'announce'],
  blockedUnchanged: ['failed', 'closeBranch', 'announce'],
  failed: ['failed', 'closeBranch', 'announce'],
  failedOnce: ['running.waiting', 'closeBranch'],
  lost: ['running.waiting', 'closeBranch', 'cancelAttempt'],
  lostTogether: ['running.waiting', 'closeBranch', 'cancelAttempt'],
  lostUnbegun: ['running.waiting', 'closeBranch', 'cancelAttempt'],
  engineLost: ['running.waiting', 'closeBranch'],
  cancel: ['cancelled', 'closeBranch', 'cancelAttempt', 'announce'],
  timedOut: ['failed', 'closeBranch', 'cancelAttempt', 'announce'],
}
const TABLE: Record<string, Row> = {
  'pending.waiting': {
    start: ['pending.starting', 'openAttempt', 'submitAttempt'],
    cancel: ['cancelled', 'announce'],
  },
  'pending.starting': {
    accepted: ['running.rendering'],
    refused: ['pending.waiting', 'closeBranch'],
    lost: ['pending.waiting', 'closeBranch', 'cancelAttempt'],
    lostTogether: ['pending.waiting', 'closeBranch', 'cancelAttempt'],
    lostUnbegun: ['pending.waiting', 'closeBranch', 'cancelAttempt'],
    failed: ['failed', 'closeBranch', 'announce'],
    // An attempt that cannot be submitted is not retried.
    failedOnce: ['failed', 'closeBranch', 'announce'],
    cancel: ['cancelled', 'closeBranch', 'cancelAttempt', 'announce'],
  },
  'running.rendering': {
    ...whileAttempting,
    accepted: ['running.rendering'],
    refused: ['running.waiting', 'closeBranch'],
    executing: ['running.executing'],
    testing: ['running.testing'],
  },
  'running.executing': { ...whileAttempting, testing: ['running.testing'] },
  'running.testing': whileAttempting,
  'running.merging': {
    merged: ['success', 'announce'],
    conflicted: ['running.waiting', 'closeBranch'],
    cancel: ['cancelled', 'closeBranch', 'announce'],
    // The runner has finished the attempt, so `cancelAttempt` is not needed.
    timedOut: ['failed', 'closeBranch', 'announce'],
  },
  'running.waiting': {
    start: ['running.rendering', 'openAttempt', 'submitAttempt'],
    cancel: ['cancelled', 'announce'],
    timedOut: ['failed', 'announce'],
  },
  success: {},
  failed: {},
  cancelled: {},
}
const EVENTS: Record<string, RunEvent> = { ...first, start, cancel, timedOut }

describe('every state and every event', () => {
  for (const [state, path] of Object.entries(STATES)) {
    for (const [name, event] of Object.entries(EVENTS)) {
      const row: Record<string, [string, ...string[]] | undefined> = TABLE[state] ?? {}
      const expected = row[name]
      test(`event ${name} in state ${state}: ${expected?.join(', ') ?? 'refused'}`, () => {
        const { snapshot } = played(...path)
        expect(pathOf(snapshot.value)).toBe(state)
        expectMove(runMachine, snapshot, event, expected)
      })
    }
  }
})

describe('attempts', () => {
  /** Events of `count` attempts that each end with the given event. */
  const attemptsThat = (lose: keyof ReturnType<typeof of>, count: number, from = 1): RunEvent[] =>
    Array.from({ length: count }, (_, n) => [start, of(from + n).accepted, of(from + n)[lose]]).flat()

  test('a run fails when it loses its third runner while executing alone', () => {
    const twice = attemptsThat('lost', MAX_LOST_ALONE - 1)
    // From its second attempt on, a run starts in `rendering`, and `accepted` leaves it there.
    expect(played(...twice)).toMatchObject({ state: 'running.waiting', attempt: MAX_LOST_ALONE - 1 })
    const thrice = played(...attemptsThat('lost', MAX_LOST_ALONE))
    expect(thrice).toMatchObject({
      status: 'failed',
      effects: ['closeBranch', 'cancelAttempt', 'announce'],
    })
    expect(thrice.snapshot.context).toMatchObject({ lostAlone: 3, lostTogether: 0, lostRunners: 3 })
  })

  test('a run is not charged for shared losses, but then executes alone', () => {
    const together = attemptsThat('lostTogether', LOST_TOGETHER_BEFORE_ALONE)
    const first = played(...together.slice(0, 3)).snapshot
    expect([first.context.lostAlone, executesAlone(first.context)]).toEqual([0, false])
    const suspect = played(...together).snapshot
    expect([suspect.context.lostAlone, executesAlone(suspect.context)]).toEqual([0, true])
    // Now the run executes alone on its runner, so every lost attempt counts towards this run's failure limit.
    const alone = attemptsThat('lostTogether', MAX_LOST_ALONE, LOST_TOGETHER_BEFORE_ALONE + 1)
    expect(played(...together, ...alone.slice(0, -1)).status).toBe('running')
    expect(played(...together, ...alone)).toMatchObject({ status: 'failed' })
  })

  test('a run fails after too many losses even if no attempt began', () => {
    const unbegun = attemptsThat('lostUnbegun', MAX_LOST_RUNNERS)
    expect(played(...unbegun)).toMatchObject({ status: 'running', waiting: true })
    expect(played(...unbegun).snapshot.context).toMatchObject({ lostAlone: 0, lostTogether: 0 })
    expect(played(...unbegun, ...attemptsThat('lostUnbegun', 1, MAX_LOST_RUNNERS + 1)).status).toBe('failed')
  })

  test('a run survives three lost engines and fails with the fourth', () => {
    expect(played(...attemptsThat('engineLost', MAX_LOST_ENGINES)).state).toBe('running.waiting')
    expect(played(...attemptsThat('engineLost', MAX_LOST_ENGINES + 1))).toMatchObject({
      status: 'failed',
      effects: ['closeBranch', 'announce'],
    })
  })

  test('a run survives twenty merge conflicts and fails with the next', () => {
    const events: RunEvent[] = [start, first.accepted, first.clear, first.conflicted]
    for (let attempt = 2; attempt <= MAX_CONFLICTS; attempt++)
      events.push(start, of(attempt).clear, of(attempt).conflicted)
    expect(played(...events).state).toBe('running.waiting')
    const last = of(MAX_CONFLICTS + 1)
    expect(played(...events, start, last.clear, last.conflicted).status).toBe('failed')
  })

  test('a refusing runner costs the run only the attempt', () => {
    const events: RunEvent[] = []
    for (let attempt = 1; attempt <= 50; attempt++) events.push(start, of(attempt).refused)
    expect(played(...events)).toMatchObject({ status: 'pending', waiting: true, attempt: 50 })
  })
})

test('a random walk merges only the attempt that it executed last', () => {
  const names = Object.keys(first) as (keyof typeof first)[]
  const step = fc.record({
    name: fc.constantFrom('start' as const, ...names),
    age: fc.constantFrom(0, 0, 0, 1),
  })
  fc.assert(
    fc.property(fc.array(step, { minLength: 200, maxLength: 200 }), (steps) => {
      let snapshot: RunSnapshot = newRun()
      let executed = 0
      for (const { name, age } of steps) {
        const event = name === 'start' ? start : of(snapshot.context.attempt - age)[name]
        if (!accepts(snapshot, event)) continue
        const { next, to } = advance(runMachine, snapshot, event)
        if (event.type === 'executed') executed = event.attempt
        if (event.type === 'merged') expect([to, executed]).toEqual(['success', next.context.attempt])
        snapshot = next
      }
    }),
    { numRuns: 300 },
  )
})

test("a running run retries failed executions up to its pipeline's limit", () => {
  const failing = (attempt: number): RunEvent => ({ type: 'executionFailed', attempt, maxRetries: 2 })
  const thrice = [start, first.accepted, failing(1), start, of(2).accepted, failing(2), start, of(3).accepted]
  const waiting = played(...thrice.slice(0, 6))
  expect([waiting.status, waiting.phase, waiting.waiting]).toEqual(['running', 'waiting', true])
  expect(played(...thrice)).toMatchObject({ state: 'running.rendering', attempt: 3 })
  expect(played(...thrice, failing(3))).toMatchObject({
    state: 'failed',
    effects: ['closeBranch', 'announce'],
  })
  expect(played(...thrice, of(3).blocked).state).toBe('failed')
  expect(played(...thrice.slice(0, 6), cancel).state).toBe('cancelled')
})
