// What programs of each version of each machine have written, as they wrote it: a database may have rows of any of them.
import { expect, test } from 'bun:test'
import type { AnyStateMachine } from 'xstate'
import { getStateNodes } from 'xstate/graph'
import { accepts, advance, pathOf, restore, type Stored, store } from './advance.ts'
import { advanceDraft, DRAFT_MACHINE_VERSION, draftColumns, draftMachine, migrateDraft } from './draft.ts'
import { migrateRun, RUN_MACHINE_VERSION, runColumns, runMachine } from './run.ts'
import { migrateTrigger, TRIGGER_MACHINE_VERSION, triggerColumns, triggerMachine } from './trigger.ts'

/** By version: one snapshot of every state, written by the program of that time. Never changed; a new version adds its own. */
const RUNS: Record<number, Stored[]> = {
  1: [
    {
      value: { pending: 'waiting' },
      context: { attempt: 3, lostRunners: 3, conflicts: 0 },
      status: 'active',
    },
    {
      value: { pending: 'starting' },
      context: { attempt: 3, lostRunners: 2, conflicts: 0 },
      status: 'active',
    },
    { value: 'cancelled', context: { attempt: 4, lostRunners: 2, conflicts: 1 }, status: 'done' },
    {
      value: { running: 'rendering' },
      context: { attempt: 4, lostRunners: 2, conflicts: 1 },
      status: 'active',
    },
    { value: 'failed', context: { attempt: 4, lostRunners: 2, conflicts: 1 }, status: 'done' },
    {
      value: { running: 'executing' },
      context: { attempt: 4, lostRunners: 2, conflicts: 1 },
      status: 'active',
    },
    {
      value: { running: 'testing' },
      context: { attempt: 4, lostRunners: 2, conflicts: 1 },
      status: 'active',
    },
    {
      value: { running: 'merging' },
      context: { attempt: 4, lostRunners: 2, conflicts: 1 },
      status: 'active',
    },
    {
      value: { running: 'waiting' },
      context: { attempt: 4, lostRunners: 2, conflicts: 2 },
      status: 'active',
    },
    { value: 'success', context: { attempt: 4, lostRunners: 2, conflicts: 1 }, status: 'done' },
  ],
  2: [
    {
      value: { pending: 'waiting' },
      context: { attempt: 3, lostRunners: 3, conflicts: 0, retries: 0 },
      status: 'active',
    },
    {
      value: { pending: 'starting' },
      context: { attempt: 3, lostRunners: 2, conflicts: 0, retries: 0 },
      status: 'active',
    },
    { value: 'cancelled', context: { attempt: 4, lostRunners: 2, conflicts: 1, retries: 0 }, status: 'done' },
    {
      value: { running: 'rendering' },
      context: { attempt: 4, lostRunners: 2, conflicts: 1, retries: 0 },
      status: 'active',
    },
    { value: 'failed', context: { attempt: 4, lostRunners: 2, conflicts: 1, retries: 0 }, status: 'done' },
    {
      value: { running: 'executing' },
      context: { attempt: 4, lostRunners: 2, conflicts: 1, retries: 0 },
      status: 'active',
    },
    {
      value: { running: 'testing' },
      context: { attempt: 4, lostRunners: 2, conflicts: 1, retries: 0 },
      status: 'active',
    },
    {
      value: { running: 'merging' },
      context: { attempt: 4, lostRunners: 2, conflicts: 1, retries: 0 },
      status: 'active',
    },
    {
      value: { running: 'waiting' },
      context: { attempt: 4, lostRunners: 2, conflicts: 2, retries: 0 },
      status: 'active',
    },
    { value: 'success', context: { attempt: 4, lostRunners: 2, conflicts: 1, retries: 0 }, status: 'done' },
  ],
  3: [
    {
      value: { pending: 'waiting' },
      context: {
        attempt: 3,
        lostRunners: 3,
        lostAlone: 1,
        lostTogether: 1,
        lostEngines: 2,
        conflicts: 0,
        retries: 0,
      },
      status: 'active',
    },
    {
      value: { pending: 'starting' },
      context: {
        attempt: 3,
        lostRunners: 2,
        lostAlone: 1,
        lostTogether: 1,
        lostEngines: 2,
        conflicts: 0,
        retries: 0,
      },
      status: 'active',
    },
    {
      value: 'cancelled',
      context: {
        attempt: 4,
        lostRunners: 2,
        lostAlone: 1,
        lostTogether: 1,
        lostEngines: 2,
        conflicts: 1,
        retries: 0,
      },
      status: 'done',
    },
    {
      value: { running: 'rendering' },
      context: {
        attempt: 4,
        lostRunners: 2,
        lostAlone: 1,
        lostTogether: 1,
        lostEngines: 2,
        conflicts: 1,
        retries: 0,
      },
      status: 'active',
    },
    {
      value: 'failed',
      context: {
        attempt: 4,
        lostRunners: 2,
        lostAlone: 1,
        lostTogether: 1,
        lostEngines: 2,
        conflicts: 1,
        retries: 0,
      },
      status: 'done',
    },
    {
      value: { running: 'executing' },
      context: {
        attempt: 4,
        lostRunners: 2,
        lostAlone: 1,
        lostTogether: 1,
        lostEngines: 2,
        conflicts: 1,
        retries: 0,
      },
      status: 'active',
    },
    {
      value: { running: 'testing' },
      context: {
        attempt: 4,
        lostRunners: 2,
        lostAlone: 1,
        lostTogether: 1,
        lostEngines: 2,
        conflicts: 1,
        retries: 0,
      },
      status: 'active',
    },
    {
      value: { running: 'merging' },
      context: {
        attempt: 4,
        lostRunners: 2,
        lostAlone: 1,
        lostTogether: 1,
        lostEngines: 2,
        conflicts: 1,
        retries: 0,
      },
      status: 'active',
    },
    {
      value: { running: 'waiting' },
      context: {
        attempt: 4,
        lostRunners: 2,
        lostAlone: 1,
        lostTogether: 1,
        lostEngines: 2,
        conflicts: 2,
        retries: 0,
      },
      status: 'active',
    },
    {
      value: 'success',
      context: {
        attempt: 4,
        lostRunners: 2,
        lostAlone: 1,
        lostTogether: 1,
        lostEngines: 2,
        conflicts: 1,
        retries: 0,
      },
      status: 'done',
    },
  ],
}

const DRAFTS: Record<number, Stored[]> = {
  1: [
    { value: 'unpublished', context: { revision: 1 }, status: 'active' },
    { value: 'clean', context: { revision: 1 }, status: 'active' },
    { value: 'deleted', context: { revision: 1 }, status: 'done' },
    { value: 'dirty', context: { revision: 1 }, status: 'active' },
  ],
}

const TRIGGERS: Record<number, Stored[]> = {
  1: [
    { value: 'armed', context: { cooldownSeconds: 60, firedAt: null }, status: 'active' },
    { value: 'disabled', context: { cooldownSeconds: 60, firedAt: 1000 }, status: 'active' },
    { value: 'cooling', context: { cooldownSeconds: 60, firedAt: 1000 }, status: 'active' },
  ],
}

const ofVersions = (snapshots: Record<number, Stored[]>) =>
  Object.entries(snapshots).flatMap(([version, all]) =>
    all.map((stored) => [Number(version), stored] as const),
  )
const statesOf = (snapshots: Stored[]) => snapshots.map(({ value }) => pathOf(value)).sort()

test('every state of every version of a machine has its snapshot here', () => {
  const leaves = (machine: AnyStateMachine) =>
    getStateNodes(machine)
      .filter(({ type }) => type === 'atomic' || type === 'final')
      .map(({ path }) => path.join('.'))
      .sort()
  for (const [machine, snapshots, current] of [
    [runMachine, RUNS, RUN_MACHINE_VERSION],
    [draftMachine, DRAFTS, DRAFT_MACHINE_VERSION],
    [triggerMachine, TRIGGERS, TRIGGER_MACHINE_VERSION],
  ] as const) {
    expect(Object.keys(snapshots)).toEqual(Array.from({ length: current }, (_, n) => String(n + 1)))
    expect(statesOf(snapshots[current] ?? [])).toEqual(leaves(machine))
  }
})

/** Counters that programs of earlier versions did not have. */
const NOT_COUNTED_THEN = { retries: 0, lostAlone: 0, lostTogether: 0, lostEngines: 0 }

test.each(ofVersions(RUNS))('a run of version %p that is %j goes on', (version, stored) => {
  const run = restore(runMachine, migrateRun(version, stored))
  expect(store(run)).toEqual({ ...stored, context: { ...NOT_COUNTED_THEN, ...(stored.context as object) } })
  expect(pathOf(run.value)).toBe(pathOf(stored.value))
  expect(runColumns(run).attempt).toBe(run.context.attempt)
  const cancel = { type: 'cancelRequested' } as const
  expect(accepts(run, cancel)).toBe(stored.status === 'active')
  if (stored.status === 'active') expect(advance(runMachine, run, cancel).to).toBe('cancelled')
  // It has not been tried again yet: its pipeline may still allow that.
  const failing = { type: 'executionFailed', attempt: run.context.attempt, maxRetries: 1 } as const
  if (['running.rendering', 'running.executing', 'running.testing'].includes(pathOf(stored.value)))
    expect(advance(runMachine, run, failing).to).toBe('running.waiting')
})

test.each(ofVersions(DRAFTS))('a draft of version %p that is %j goes on', (version, stored) => {
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

test.each(ofVersions(TRIGGERS))('a trigger of version %p that is %j goes on', (version, stored) => {
  const trigger = restore(triggerMachine, migrateTrigger(version, stored))
  expect(store(trigger)).toEqual(stored)
  expect(triggerColumns(trigger).cooldownSeconds).toBe(60)
  const fired = (at: number) => ({ type: 'fired', at }) as const
  expect(accepts(trigger, fired(61_000))).toBe(stored.value !== 'disabled')
  // Its cooldown of then is kept.
  expect(accepts(trigger, fired(60_999))).toBe(stored.value === 'armed')
})
