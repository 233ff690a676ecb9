import { describe, expect, test } from 'bun:test'
import { advance, pathOf } from '../../machines/advance.ts'
import { draftMachine, newDraft } from '../../machines/draft.ts'
import { newRun, runMachine } from '../../machines/run.ts'
import { newTrigger, triggerMachine } from '../../machines/trigger.ts'
import { CREATED, definitionOf, leafStatesOf, transitionTaken } from './definitions.ts'
import { MACHINE_NAMES, type MachineName } from './schema.ts'
import { DESCRIPTIONS } from './wording.ts'

const MACHINES = {
  run: { machine: runMachine, begin: () => newRun() },
  draft: { machine: draftMachine, begin: () => newDraft() },
  trigger: { machine: triggerMachine, begin: () => newTrigger({ enabled: true, cooldownSeconds: 10 }) },
}

/** Contexts for both outcomes of the guards. */
const CONTEXTS: Record<MachineName, object[]> = {
  run: [0, 20].flatMap((lostRunners) =>
    [0, 20].map((conflicts) => ({
      ...newRun().context,
      attempt: 1,
      lostRunners,
      lostEngines: conflicts,
      conflicts,
      retries: 1,
    })),
  ),
  draft: [{ revision: 1 }],
  trigger: [0, 10].flatMap((cooldownSeconds) => [null, 0].map((firedAt) => ({ cooldownSeconds, firedAt }))),
}
const FIELDS: Record<MachineName, Record<string, unknown[]>> = {
  run: {
    attempt: [1, 2],
    phase: ['executing', 'testing'],
    isBlocked: [true, false],
    hasChanged: [true, false],
    change: [null, 'a change'],
    maxRetries: [1, 2],
    hasBegun: [true],
    hasCompany: [true],
  },
  draft: { revision: [1, 2], isDraft: [true, false] },
  trigger: { at: [5_000, 20_000], cooldownSeconds: [0, 10] },
}

const events = (machine: MachineName): { type: string }[] =>
  Object.entries(FIELDS[machine]).reduce<{ type: string }[]>(
    (all, [field, values]) => all.flatMap((one) => values.map((value) => ({ ...one, [field]: value }))),
    [...new Set(definitionOf(machine).transitions.map(({ event }) => event))].map((type) => ({ type })),
  )

const stateValue = (path: string) =>
  path.split('.').reduceRight<unknown>((inner, key) => (inner ? { [key]: inner } : key), '')

describe.each([...MACHINE_NAMES])('%s', (name) => {
  const definition = definitionOf(name)

  test('describes every state in a sentence, and nothing else', () => {
    expect(Object.keys(DESCRIPTIONS[name]).sort()).toEqual(definition.states.map(({ path }) => path).sort())
    for (const { description } of definition.states) expect(description).toEndWith('.')
  })

  test('begins in the initial state of its instances', () => {
    expect(definition.initial).toBe(pathOf(MACHINES[name].begin().value))
  })

  test('has one initial state at each level', () => {
    for (const parent of new Set(definition.states.map((state) => state.parent)))
      expect(definition.states.filter((state) => state.parent === parent && state.initial)).toHaveLength(1)
  })

  test('has transitions between states, each with a unique id', () => {
    const paths = new Set(definition.states.map(({ path }) => path))
    const leaves = new Set(leafStatesOf(definition).map(({ path }) => path))
    expect(new Set(definition.transitions.map(({ id }) => id)).size).toBe(definition.transitions.length)
    for (const { from, to, enters } of definition.transitions) {
      expect(paths).toContain(from)
      expect(paths).toContain(to)
      expect(leaves).toContain(enters)
    }
  })

  test('maps every possible move to its transition, and uses all transitions', () => {
    const usedTransitions = new Set<string>()
    const { machine } = MACHINES[name]
    for (const { path, kind } of leafStatesOf(definition)) {
      if (kind === 'final') continue
      for (const context of CONTEXTS[name]) {
        const snapshot = machine.resolveState({ value: stateValue(path), context, status: 'active' } as never)
        for (const event of events(name)) {
          if (!snapshot.can(event as never)) continue
          const move = advance(machine, snapshot as never, event as never)
          const id = transitionTaken(definition, { ...move, event: event.type })
          const found = definition.transitions.find((one) => one.id === id)
          expect(found).toMatchObject({ event: event.type, from: path, effects: move.effects })
          usedTransitions.add(String(id))
        }
      }
    }
    expect([...usedTransitions].sort()).toEqual(definition.transitions.map(({ id }) => id).sort())
  })
})

test('the first entry of a history takes the initial arrow', () => {
  const requested = { event: 'requested', from: '', to: 'pending.waiting', effects: [] }
  expect(transitionTaken(definitionOf('run'), requested)).toBe(CREATED)
})

test('a move that this machine version lacks has no transition', () => {
  const run = definitionOf('run')
  const moved = { event: 'merged', from: 'running.merging', to: 'success', effects: ['announce'] }
  expect(transitionTaken(run, moved)).toBe('running.merging:merged:0')
  expect(transitionTaken(run, { ...moved, effects: ['announce', 'archive'] })).toBeNull()
  expect(transitionTaken(run, { ...moved, to: 'failed' })).toBeNull()
  expect(transitionTaken(run, { ...moved, from: 'running.publishing' })).toBeNull()
})
