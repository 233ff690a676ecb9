import { describe, expect, test } from 'bun:test'
import { accepts, advance, IllegalMove, pathOf, restore, store } from './advance.ts'
import {
  executesAlone,
  isTerminal,
  LOST_TOGETHER_BEFORE_ALONE,
  MAX_CONFLICTS,
  MAX_LOST_ALONE,
  MAX_LOST_ENGINES,
  MAX_LOST_RUNNERS,
  migrateRun,
  newRun,
  RUN_MACHINE_VERSION,
  type RunEvent,
  type RunSnapshot,
  runColumns,
  runMachine,
} from './run.ts'

const start: RunEvent = { type: 'start' }
const cancel: RunEvent = { type: 'cancelRequested' }
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

/** Plays events from the beginning; every snapshot goes through storage on its way. */
function play(...events: RunEvent[]) {
  let snapshot = newRun()
  let effects: string[] = []
  for (const event of events) {
    const stored = JSON.parse(JSON.stringify(store(snapshot)))
    const move = advance(runMachine, restore(runMachine, stored), event)
    snapshot = move.next
    effects = move.effects
  }
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

/** Every state and event: the next state and the effects; an event that is not named is refused. */
type Row = Partial<Record<keyof typeof first | 'start' | 'cancel', [string, ...string[]]>>
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
    // What cannot be submitted once cannot be submitted again.
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
  },
  'running.waiting': {
    start: ['running.rendering', 'openAttempt', 'submitAttempt'],
    cancel: ['cancelled', 'announce'],
  },
  success: {},
  failed: {},
  cancelled: {},
}
const EVENTS: Record<string, RunEvent> = { ...first, start, cancel }

describe('every state and every event', () => {
  for (const [state, path] of Object.entries(STATES)) {
    for (const [name, event] of Object.entries(EVENTS)) {
      const row: Record<string, [string, ...string[]] | undefined> = TABLE[state] ?? {}
      const expected = row[name]
      if (expected === undefined)
        test(`${name} is refused in ${state}`, () => {
          const { snapshot } = play(...path)
          expect(pathOf(snapshot.value)).toBe(state)
          expect(accepts(snapshot, event)).toBe(false)
          expect(() => advance(runMachine, snapshot, event)).toThrow(IllegalMove)
        })
      else
        test(`${name} takes ${state} to ${expected[0]}`, () => {
          const { snapshot } = play(...path)
          expect(pathOf(snapshot.value)).toBe(state)
          const move = advance(runMachine, snapshot, event)
          expect([move.to, ...move.effects]).toEqual(expected)
        })
    }
  }
})

describe('attempts', () => {
  test('facts of another attempt are refused in every state', () => {
    for (const path of Object.values(STATES)) {
      const { snapshot } = play(...path)
      for (const [name, event] of Object.entries(of(2)))
        expect([name, accepts(snapshot, event)]).toEqual([name, false])
    }
  })

  /** As many attempts, each of which ends with that. */
  const attemptsThat = (lose: keyof ReturnType<typeof of>, count: number, from = 1): RunEvent[] =>
    Array.from({ length: count }, (_, n) => [start, of(from + n).accepted, of(from + n)[lose]]).flat()

  test('a run that loses three runners alone fails with the third', () => {
    const twice = attemptsThat('lost', MAX_LOST_ALONE - 1)
    // From the second attempt on the run renders at once; an accepted one stays where it is.
    expect(play(...twice)).toMatchObject({ state: 'running.waiting', attempt: MAX_LOST_ALONE - 1 })
    const thrice = play(...attemptsThat('lost', MAX_LOST_ALONE))
    expect(thrice).toMatchObject({
      status: 'failed',
      effects: ['closeBranch', 'cancelAttempt', 'announce'],
    })
    expect(thrice.snapshot.context).toMatchObject({ lostAlone: 3, lostTogether: 0, lostRunners: 3 })
  })

  test('a run that loses runners together with others is not charged, and executes alone from then on', () => {
    const together = attemptsThat('lostTogether', LOST_TOGETHER_BEFORE_ALONE)
    const first = play(...together.slice(0, 3)).snapshot
    expect([first.context.lostAlone, executesAlone(first.context)]).toEqual([0, false])
    const suspect = play(...together).snapshot
    expect([suspect.context.lostAlone, executesAlone(suspect.context)]).toEqual([0, true])
    // A run that waits for its runner executes nothing there.
    const alone = attemptsThat('lostTogether', MAX_LOST_ALONE, LOST_TOGETHER_BEFORE_ALONE + 1)
    expect(play(...together, ...alone.slice(0, -1)).status).toBe('running')
    expect(play(...together, ...alone)).toMatchObject({ status: 'failed' })
  })

  test('a run whose attempts never began is not charged, and ends all the same', () => {
    const unbegun = attemptsThat('lostUnbegun', MAX_LOST_RUNNERS)
    expect(play(...unbegun)).toMatchObject({ status: 'running', waiting: true })
    expect(play(...unbegun).snapshot.context).toMatchObject({ lostAlone: 0, lostTogether: 0 })
    expect(play(...unbegun, ...attemptsThat('lostUnbegun', 1, MAX_LOST_RUNNERS + 1)).status).toBe('failed')
  })

  test('a run survives three lost engines and fails with the fourth', () => {
    expect(play(...attemptsThat('engineLost', MAX_LOST_ENGINES)).state).toBe('running.waiting')
    expect(play(...attemptsThat('engineLost', MAX_LOST_ENGINES + 1))).toMatchObject({
      status: 'failed',
      effects: ['closeBranch', 'announce'],
    })
  })

  test('a run survives twenty merge conflicts and fails with the next', () => {
    const events: RunEvent[] = [start, first.accepted, first.clear, first.conflicted]
    for (let attempt = 2; attempt <= MAX_CONFLICTS; attempt++)
      events.push(start, of(attempt).clear, of(attempt).conflicted)
    expect(play(...events).state).toBe('running.waiting')
    const last = of(MAX_CONFLICTS + 1)
    expect(play(...events, start, last.clear, last.conflicted).status).toBe('failed')
  })

  test('a runner that refuses costs the run nothing but the attempt', () => {
    const events: RunEvent[] = []
    for (let attempt = 1; attempt <= 50; attempt++) events.push(start, of(attempt).refused)
    expect(play(...events)).toMatchObject({ status: 'pending', waiting: true, attempt: 50 })
  })
})

describe('columns', () => {
  test('status, phase and waiting follow from the snapshot', () => {
    for (const [state, path] of Object.entries(STATES)) {
      const { status, phase, waiting } = play(...path)
      const [outer = '', inner] = state.split('.')
      expect({ status, phase, waiting }).toEqual({
        status: outer as typeof status,
        phase: outer === 'running' ? (inner as typeof phase) : null,
        waiting: inner === 'waiting',
      })
      expect(isTerminal(status)).toBe(inner === undefined)
    }
  })
})

describe('random walks', () => {
  test('no walk leaves a terminal state, and every walk that merges has merged what it executed last', () => {
    for (let seed = 1; seed <= 300; seed++) {
      const random = mulberry32(seed)
      let snapshot: RunSnapshot = newRun()
      let executed = 0
      for (let step = 0; step < 200 && snapshot.status === 'active'; step++) {
        const attempt = snapshot.context.attempt - (random() < 0.1 ? 1 : 0)
        const choices = Object.values({ ...of(attempt), start, cancel: random() < 0.1 ? cancel : start })
        const event = choices[Math.floor(random() * choices.length)] ?? start
        if (!accepts(snapshot, event)) continue
        const { next, to } = advance(runMachine, snapshot, event)
        if (event.type === 'executed') executed = event.attempt
        if (event.type === 'merged') expect([to, executed]).toEqual(['success', next.context.attempt])
        snapshot = next
      }
      if (snapshot.status !== 'active')
        for (const event of Object.values({ ...of(snapshot.context.attempt), start, cancel }))
          expect(() => advance(runMachine, snapshot, event)).toThrow(IllegalMove)
    }
  })
})

test('a failed execution is tried again as often as its pipeline allows, and stays running meanwhile', () => {
  const failing = (attempt: number): RunEvent => ({ type: 'executionFailed', attempt, maxRetries: 2 })
  const thrice = [start, first.accepted, failing(1), start, of(2).accepted, failing(2), start, of(3).accepted]
  const waiting = play(...thrice.slice(0, 6))
  expect([waiting.status, waiting.phase, waiting.waiting]).toEqual(['running', 'waiting', true])
  expect(play(...thrice)).toMatchObject({ state: 'running.rendering', attempt: 3 })
  expect(play(...thrice, failing(3))).toMatchObject({ state: 'failed', effects: ['closeBranch', 'announce'] })
  expect(play(...thrice, of(3).blocked).state).toBe('failed')
  expect(play(...thrice.slice(0, 6), cancel).state).toBe('cancelled')
})

test('a run that takes too long fails wherever it is, its branch is closed and its runner stops', () => {
  const whileAttempting = ['failed', 'closeBranch', 'cancelAttempt', 'announce']
  const expected: Record<string, string[]> = {
    'running.rendering': whileAttempting,
    'running.executing': whileAttempting,
    'running.testing': whileAttempting,
    // Its runner is done, and it has none between two attempts.
    'running.merging': ['failed', 'closeBranch', 'announce'],
    'running.waiting': ['failed', 'announce'],
  }
  for (const [state, events] of Object.entries(STATES)) {
    const late = () => play(...events, { type: 'timedOut' })
    if (expected[state] === undefined) expect(late).toThrow(IllegalMove)
    else expect([state, late().state, ...late().effects]).toEqual([state, ...expected[state]])
  }
})

test('a run from before retries has had none', () => {
  const { context, ...stored } = store(newRun())
  const { attempt, lostRunners, conflicts } = context as RunSnapshot['context']
  const before = { attempt, lostRunners, conflicts }
  expect(migrateRun(1, { ...stored, context: before })).toEqual(store(newRun()))
})

test('a snapshot that a newer program has written is not touched', () => {
  expect(() => migrateRun(RUN_MACHINE_VERSION + 1, store(newRun()))).toThrow('newer program')
  expect(migrateRun(RUN_MACHINE_VERSION, store(newRun()))).toEqual(store(newRun()))
})

/** A small seeded generator, so that a failing walk can be walked again. Source: Tommy Ettinger's mulberry32, public domain. */
function mulberry32(seed: number) {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296
  }
}
