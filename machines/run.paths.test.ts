import { describe, expect, test } from 'bun:test'
import { pathOf } from './advance.ts'
import {
  isTerminal,
  MAX_CONFLICTS,
  MAX_LOST_RUNNERS,
  newRun,
  type RunEvent,
  type RunSnapshot,
  runColumns,
  runMachine,
} from './run.ts'
import { expectWhole, type Model, statesOf, walkEveryPlace, walkSimplePaths } from './test-paths.ts'

/** Facts of the attempt that is open, of the one before it and of one that has never been. */
const ATTEMPTS = { '': 0, ' of the attempt before': -1, ' of a later attempt': 1 }
const FACTS: Record<string, (attempt: number) => RunEvent> = {
  accepted: (attempt) => ({ type: 'accepted', attempt }),
  refused: (attempt) => ({ type: 'refused', attempt }),
  executing: (attempt) => ({ type: 'entered', attempt, phase: 'executing' }),
  testing: (attempt) => ({ type: 'entered', attempt, phase: 'testing' }),
  'executed clear': (attempt) => ({ type: 'executed', attempt, isBlocked: false, hasChanged: true }),
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
  'runner lost': (attempt) => ({ type: 'runnerLost', attempt }),
  merged: (attempt) => ({ type: 'merged', attempt }),
  conflicted: (attempt) => ({ type: 'conflicted', attempt }),
}
const EVENTS: Model<typeof runMachine>['events'] = {
  start: () => ({ type: 'start' }),
  'cancel requested': () => ({ type: 'cancelRequested' }),
  'input taken': () => ({ type: 'inputTaken' }),
  'timed out': () => ({ type: 'timedOut' }),
  ...Object.fromEntries(
    Object.entries(FACTS).flatMap(([name, make]) =>
      Object.entries(ATTEMPTS).map(([of, difference]) => [
        name + of,
        ({ context }: RunSnapshot) => make(context.attempt + difference),
      ]),
    ),
  ),
}

const waitingWith = (lostRunners: number, conflicts: number, retries = 0): RunSnapshot =>
  runMachine.resolveState({
    value: newRun().value,
    context: { attempt: lostRunners + conflicts + retries, lostRunners, conflicts, retries },
    status: 'active',
  })

const model: Model<typeof runMachine> = {
  machine: runMachine,
  beginnings: [
    newRun(),
    waitingWith(MAX_LOST_RUNNERS, 0),
    waitingWith(0, MAX_CONFLICTS),
    waitingWith(0, 0, 1),
  ],
  events: EVENTS,
  // No simple path loses two runners or conflicts twice, so what was lost before it began decides.
  placeOf: ({ value }) => pathOf(value),
  check(snapshot) {
    const { status, phase, attempt, waiting } = runColumns(snapshot)
    const [outer = '', inner = ''] = pathOf(snapshot.value).split('.')
    expect<string>(status).toBe(outer)
    expect<string | null>(phase).toBe(outer === 'running' ? inner : null)
    expect(waiting).toBe(inner === 'waiting')
    expect(attempt).toBe(snapshot.context.attempt)
    expect(isTerminal(status)).toBe(snapshot.status === 'done')
    // A run that has an attempt under way has had a first one; what ends runs is bounded.
    if (status === 'running') expect(attempt).toBeGreaterThan(0)
    expect(snapshot.context.lostRunners).toBeLessThanOrEqual(MAX_LOST_RUNNERS)
    expect(snapshot.context.conflicts).toBeLessThanOrEqual(MAX_CONFLICTS)
    expect(snapshot.context.retries).toBeLessThanOrEqual(1)
  },
}

describe('run', () => {
  const paths = walkSimplePaths(model)
  const places = walkEveryPlace({
    ...model,
    beginnings: [newRun()],
    placeOf: ({ value, context: { lostRunners, conflicts, retries } }) =>
      `${pathOf(value)} ${lostRunners} ${conflicts} ${retries}`,
  })

  test('all its paths are walked', () => {
    expect(paths.paths).toBeGreaterThan(200)
  })
  test('every state is reached, every transition taken, every guard seen to hold and to fail', () => {
    expectWhole(runMachine, paths, places)
  })
  test('with every number of lost runners, conflicts and retries, every event does what the definition says', () => {
    expect(places.places.size).toBeGreaterThan((MAX_LOST_RUNNERS + 1) * (MAX_CONFLICTS + 1) * 2 * 7)
    expect(places.steps).toBe(places.places.size * Object.keys(EVENTS).length)
  })
  test('a fact of another attempt moves it nowhere', () => {
    const stale = Object.keys(EVENTS).filter((name) =>
      / of the attempt before| of a later attempt/.test(name),
    )
    for (const state of statesOf(runMachine))
      for (const name of stale) expect(places.refused).toContain(`${state} ${name}`)
  })
})
