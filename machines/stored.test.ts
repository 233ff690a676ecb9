// Snapshots as the programs of each machine version wrote them. A database may contain rows of any version.
import { expect, test } from 'bun:test'
import { accepts, advance, pathOf, restore, type Stored, store } from './advance.ts'
import { advanceDraft, DRAFT_MACHINE_VERSION, draftColumns, draftMachine, migrateDraft } from './draft.ts'
import { migrateRun, RUN_MACHINE_VERSION, runColumns, runMachine } from './run.ts'
import { statesOf } from './test-paths.ts'
import { migrateTrigger, TRIGGER_MACHINE_VERSION, triggerColumns, triggerMachine } from './trigger.ts'

/** A snapshot of a state and a context: `pending.waiting` is `{ pending: 'waiting' }`. */
function written(path: string, context: object, status = 'active'): Stored {
  const [outer = '', inner] = path.split('.')
  return { value: inner === undefined ? outer : { [outer]: inner }, context, status }
}

/** One snapshot of every state of a run, with `counters` added to the counters of every version. */
const runsWith = (counters: object): Stored[] => [
  written('pending.waiting', { attempt: 3, lostRunners: 3, conflicts: 0, ...counters }),
  written('pending.starting', { attempt: 3, lostRunners: 2, conflicts: 0, ...counters }),
  ...['running.rendering', 'running.executing', 'running.testing', 'running.merging'].map((path) =>
    written(path, { attempt: 4, lostRunners: 2, conflicts: 1, ...counters }),
  ),
  written('running.waiting', { attempt: 4, lostRunners: 2, conflicts: 2, ...counters }),
  ...['success', 'failed', 'cancelled'].map((path) =>
    written(path, { attempt: 4, lostRunners: 2, conflicts: 1, ...counters }, 'done'),
  ),
]

const COUNTED = { lostAlone: 1, lostTogether: 1, lostEngines: 2, retries: 0 }

/**
 * Snapshots of every state by version, as the program of that version wrote them. Entries never change; a new version adds its
 * own.
 */
const RUNS: Record<number, Stored[]> = {
  1: runsWith({}),
  2: runsWith({ retries: 0 }),
  3: runsWith({ lostAlone: 1, lostTogether: 1, lostEngines: 2, retries: 0 }),
  4: [
    ...runsWith({ ...COUNTED, proposed: 'a change', approved: 'a change' }),
    written('running.review', {
      attempt: 4,
      lostRunners: 2,
      conflicts: 1,
      ...COUNTED,
      proposed: 'a change',
      approved: null,
    }),
  ],
}

const DRAFTS: Record<number, Stored[]> = {
  1: [
    ...['unpublished', 'clean', 'dirty'].map((path) => written(path, { revision: 1 })),
    written('deleted', { revision: 1 }, 'done'),
  ],
}

const TRIGGERS: Record<number, Stored[]> = {
  1: [
    written('armed', { cooldownSeconds: 60, firedAt: null }),
    written('disabled', { cooldownSeconds: 60, firedAt: 1000 }),
    written('cooling', { cooldownSeconds: 60, firedAt: 1000 }),
  ],
}

const ofVersions = (snapshots: Record<number, Stored[]>) =>
  Object.entries(snapshots).flatMap(([version, all]) =>
    all.map((stored) => [Number(version), stored] as const),
  )

test('every machine version and every current state has a snapshot here', () => {
  for (const [machine, snapshots, current] of [
    [runMachine, RUNS, RUN_MACHINE_VERSION],
    [draftMachine, DRAFTS, DRAFT_MACHINE_VERSION],
    [triggerMachine, TRIGGERS, TRIGGER_MACHINE_VERSION],
  ] as const) {
    expect(Object.keys(snapshots)).toEqual(Array.from({ length: current }, (_, n) => String(n + 1)))
    const states = snapshots[current]?.map(({ value }) => pathOf(value))
    expect(states?.sort()).toEqual(statesOf(machine).sort())
  }
})

/** Fields that earlier versions did not have. */
const NOT_COUNTED_THEN = {
  retries: 0,
  lostAlone: 0,
  lostTogether: 0,
  lostEngines: 0,
  proposed: null,
  approved: null,
}

test.each(ofVersions(RUNS))('a run of version %p continues from snapshot %j', (version, stored) => {
  const run = restore(runMachine, migrateRun(version, stored))
  expect(store(run)).toEqual({ ...stored, context: { ...NOT_COUNTED_THEN, ...(stored.context as object) } })
  expect(pathOf(run.value)).toBe(pathOf(stored.value))
  expect(runColumns(run).attempt).toBe(run.context.attempt)
  const cancel = { type: 'cancelRequested' } as const
  expect(accepts(run, cancel)).toBe(stored.status === 'active')
  if (stored.status === 'active') expect(advance(runMachine, run, cancel).to).toBe('cancelled')
  // The stored run has no retry yet, so its pipeline may still allow one.
  const failing = { type: 'executionFailed', attempt: run.context.attempt, maxRetries: 1 } as const
  if (['running.rendering', 'running.executing', 'running.testing'].includes(pathOf(stored.value)))
    expect(advance(runMachine, run, failing).to).toBe('running.waiting')
})

test.each(ofVersions(DRAFTS))('a draft of version %p continues from snapshot %j', (version, stored) => {
  const draft = restore(draftMachine, migrateDraft(version, stored))
  expect(store(draft)).toEqual(stored)
  expect(draftColumns(draft).draftRevision).toBe(1)
  if (stored.status === 'done') expect(accepts(draft, { type: 'fileWritten' })).toBe(false)
  else
    expect(draftColumns(advanceDraft(draft, { type: 'fileWritten' }).next)).toEqual({
      draftDirty: true,
      draftRevision: 2,
    })
})

test.each(ofVersions(TRIGGERS))('a trigger of version %p continues from snapshot %j', (version, stored) => {
  const trigger = restore(triggerMachine, migrateTrigger(version, stored))
  expect(store(trigger)).toEqual(stored)
  expect(triggerColumns(trigger).cooldownSeconds).toBe(60)
  const fired = (at: number) => ({ type: 'fired', at }) as const
  expect(accepts(trigger, fired(61_000))).toBe(stored.value !== 'disabled')
  // The stored cooldown still applies.
  expect(accepts(trigger, fired(60_999))).toBe(stored.value === 'armed')
})
