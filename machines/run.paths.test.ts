import { describe, expect, test } from 'bun:test'
import { pathOf } from './advance.ts'
import {
  isTerminal,
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
import {
  expectWhole,
  type Model,
  mergedRecords,
  statesOf,
  walkEveryPlace,
  walkSimplePaths,
} from './test-paths.ts'

const CHANGE = 'a change'

/** Facts of the open attempt, of the attempt before, and of an attempt that does not exist yet. */
const ATTEMPTS = { '': 0, ' of the attempt before': -1, ' of a later attempt': 1 }
const FACTS: Record<string, (attempt: number) => RunEvent> = {
  accepted: (attempt) => ({ type: 'accepted', attempt }),
  refused: (attempt) => ({ type: 'refused', attempt }),
  executing: (attempt) => ({ type: 'entered', attempt, phase: 'executing' }),
  testing: (attempt) => ({ type: 'entered', attempt, phase: 'testing' }),
  'executed clear': (attempt) => ({ type: 'executed', attempt, isBlocked: false, hasChanged: true }),
  'executed, to be reviewed': (attempt) => ({
    type: 'executed',
    attempt,
    isBlocked: false,
    hasChanged: true,
    change: CHANGE,
  }),
  'executed, another change to be reviewed': (attempt) => ({
    type: 'executed',
    attempt,
    isBlocked: false,
    hasChanged: true,
    change: 'another change',
  }),
  'executed unchanged': (attempt) => ({ type: 'executed', attempt, isBlocked: false, hasChanged: false }),
  'executed blocked': (attempt) => ({ type: 'executed', attempt, isBlocked: true, hasChanged: true }),
  'executed blocked, unchanged': (attempt) => ({
    type: 'executed',
    attempt,
    isBlocked: true,
    hasChanged: false,
  }),
  'execution failed': (attempt) => ({ type: 'executionFailed', attempt }),
  'execution failed, once more allowed': (attempt) => ({ type: 'executionFailed', attempt, maxRetries: 1 }),
  'runner lost before it began': (attempt) => ({
    type: 'runnerLost',
    attempt,
    hasBegun: false,
    hasCompany: false,
  }),
  'runner lost together': (attempt) => ({ type: 'runnerLost', attempt, hasBegun: true, hasCompany: true }),
  'runner lost alone': (attempt) => ({ type: 'runnerLost', attempt, hasBegun: true, hasCompany: false }),
  'engine lost': (attempt) => ({ type: 'engineLost', attempt }),
  merged: (attempt) => ({ type: 'merged', attempt }),
  conflicted: (attempt) => ({ type: 'conflicted', attempt }),
}
const EVENTS: Model<typeof runMachine>['events'] = {
  start: () => ({ type: 'start' }),
  'cancel requested': () => ({ type: 'cancelRequested' }),
  'input taken': () => ({ type: 'inputTaken' }),
  'timed out': () => ({ type: 'timedOut' }),
  approved: () => ({ type: 'approved' }),
  rejected: () => ({ type: 'rejected' }),
  'review expired': () => ({ type: 'reviewExpired' }),
  ...Object.fromEntries(
    Object.entries(FACTS).flatMap(([name, make]) =>
      Object.entries(ATTEMPTS).map(([of, difference]) => [
        name + of,
        ({ context }: RunSnapshot) => make(context.attempt + difference),
      ]),
    ),
  ),
}

const waitingWith = (counted: Partial<RunSnapshot['context']>): RunSnapshot =>
  runMachine.resolveState({
    value: newRun().value,
    context: { ...newRun().context, attempt: 1, ...counted },
    status: 'active',
  })

const model: Model<typeof runMachine> = {
  machine: runMachine,
  beginnings: [
    newRun(),
    waitingWith({ lostRunners: MAX_LOST_RUNNERS }),
    waitingWith({ lostRunners: MAX_LOST_ALONE - 1, lostAlone: MAX_LOST_ALONE - 1 }),
    waitingWith({ lostRunners: LOST_TOGETHER_BEFORE_ALONE, lostTogether: LOST_TOGETHER_BEFORE_ALONE }),
    waitingWith({ lostEngines: MAX_LOST_ENGINES }),
    waitingWith({ conflicts: MAX_CONFLICTS }),
    waitingWith({ retries: 1 }),
    waitingWith({ proposed: CHANGE, approved: CHANGE }),
  ],
  events: EVENTS,
  // No simple path loses two runners or conflicts twice, so only the counters of the beginning matter to guards.
  coordinateOf: ({ value }) => pathOf(value),
  check(snapshot) {
    const { status, phase, attempt, waiting } = runColumns(snapshot)
    const [outer = '', inner = ''] = pathOf(snapshot.value).split('.')
    expect<string>(status).toBe(outer)
    expect<string | null>(phase).toBe(outer === 'running' ? inner : null)
    expect(waiting).toBe(inner === 'waiting')
    expect(attempt).toBe(snapshot.context.attempt)
    expect(isTerminal(status)).toBe(snapshot.status === 'done')
    // A running run has had its first attempt.
    if (status === 'running') expect(attempt).toBeGreaterThan(0)
    // The counters of losses are bounded; the loss that fails a run is counted too.
    const last = snapshot.status === 'done' ? 1 : 0
    expect(snapshot.context.lostRunners).toBeLessThanOrEqual(MAX_LOST_RUNNERS + last)
    expect(snapshot.context.lostAlone).toBeLessThanOrEqual(MAX_LOST_ALONE - 1 + last)
    expect(snapshot.context.lostTogether).toBeLessThanOrEqual(LOST_TOGETHER_BEFORE_ALONE)
    expect(snapshot.context.lostEngines).toBeLessThanOrEqual(MAX_LOST_ENGINES + last)
    expect(snapshot.context.conflicts).toBeLessThanOrEqual(MAX_CONFLICTS)
    expect(snapshot.context.retries).toBeLessThanOrEqual(1)
    // Only a change that was in review can be approved.
    if (snapshot.context.approved !== null) expect(snapshot.context.proposed).not.toBeNull()
  },
}

describe('run', () => {
  const paths = walkSimplePaths(model)
  /** Walks every combination of the given counters in every state. All counters at once are millions of places. */
  const walkEvery = (...counters: (keyof RunSnapshot['context'])[]) =>
    walkEveryPlace({
      ...model,
      beginnings: [newRun()],
      coordinateOf: ({ value, context }) =>
        [pathOf(value), ...counters.map((name) => context[name])].join(' '),
    })
  const walks = {
    conflicts: walkEvery('conflicts', 'retries'),
    runners: walkEvery('lostRunners', 'lostAlone', 'lostTogether'),
    engines: walkEvery('lostEngines', 'retries'),
    reviews: walkEvery('proposed', 'approved'),
  }

  test('walks all simple paths of the run statechart', () => {
    expect(paths.paths).toBeGreaterThan(200)
  })
  test('reaches every state, transition and guard outcome of a run', () => {
    expectWhole(runMachine, paths, mergedRecords(Object.values(walks)))
  })
  test('handles every event as defined, with every value of the counters', () => {
    expect(walks.conflicts.coordinates.size).toBeGreaterThan((MAX_CONFLICTS + 1) * 2 * 7)
    expect(walks.runners.coordinates.size).toBeGreaterThan((MAX_LOST_RUNNERS + 1) * 7)
    expect(walks.engines.coordinates.size).toBeGreaterThan((MAX_LOST_ENGINES + 1) * 2 * 7)
    for (const { coordinates, steps } of Object.values(walks))
      expect(steps).toBe(coordinates.size * Object.keys(EVENTS).length)
  })
  test('refuses facts of other attempts in every state', () => {
    const stale = Object.keys(EVENTS).filter((name) =>
      / of the attempt before| of a later attempt/.test(name),
    )
    for (const state of statesOf(runMachine))
      for (const name of stale) expect(walks.runners.refused).toContain(`${state} ${name}`)
  })
})
