// Walks a machine along every simple path of its graph and records the visited parts of its definition. So a failed test names
// each state, transition or guard outcome that no path reaches.
import { expect } from 'bun:test'
import {
  type AnyMachineSnapshot,
  type AnyStateMachine,
  type AnyTransitionDefinition,
  type EventFromLogic,
  getNextTransitions,
  type SnapshotFrom,
} from 'xstate'
import { getAdjacencyMap, getSimplePaths, getStateNodes } from 'xstate/graph'
import { accepts, advance, IllegalMove, pathOf, restore, store } from './advance.ts'

export interface Model<Machine extends AnyStateMachine> {
  machine: Machine
  /** Snapshots at which paths begin: a new instance, and instances whose counters have reached a guard's limit. */
  beginnings: SnapshotFrom<Machine>[]
  /** Events by name. Each is made for the current snapshot, because its attempt and times depend on the snapshot. */
  events: Record<string, (current: SnapshotFrom<Machine>) => EventFromLogic<Machine>>
  /** Two snapshots share a place if no guard distinguishes them. Places keep the graph finite despite counters. */
  coordinateOf(snapshot: SnapshotFrom<Machine>): string
  /** Asserts the invariants of a reached snapshot. */
  check(snapshot: SnapshotFrom<Machine>): void
}

/** The record of a walk. Transitions and guards are named as in `transitionsOf`. */
interface PathRecord {
  paths: number
  steps: number
  coordinates: Set<string>
  states: Set<string>
  covered: Set<string>
  /** `<transition> held` and `<transition> failed`, for transitions with a guard. */
  guards: Set<string>
  /** Refused events, as `<state> <event>`. */
  refused: Set<string>
  /** Snapshots that were checked, as stored. Many paths reach the same one. */
  checked: Set<string>
}

/** Merges the records of several walks. */
export function mergedRecords(walks: readonly PathRecord[]): PathRecord {
  const all = emptyRecord()
  for (const { paths, steps, ...sets } of walks) {
    all.paths += paths
    all.steps += steps
    for (const key of ['coordinates', 'states', 'covered', 'guards', 'refused', 'checked'] as const)
      for (const name of sets[key]) all[key].add(name)
  }
  return all
}

const emptyRecord = (): PathRecord => ({
  paths: 0,
  steps: 0,
  coordinates: new Set(),
  states: new Set(),
  covered: new Set(),
  guards: new Set(),
  refused: new Set(),
  checked: new Set(),
})

/**
 * Walks every simple path from every beginning; a simple path visits no place twice. Each step goes through `advance` and
 * storage.
 */
export function walkSimplePaths(model: Model<AnyStateMachine>): PathRecord {
  const record = emptyRecord()
  for (const beginning of model.beginnings) {
    const { options, nameOf } = traversal(model)
    for (const { steps } of getSimplePaths(model.machine, { ...options, fromState: beginning })) {
      record.paths += 1
      let current = beginning
      checkSnapshot(model, current, record)
      // The first step only names the beginning of the path.
      for (const step of steps.slice(1)) {
        const next = walk(model, current, nameOf(step.event), record)
        expect(model.coordinateOf(next)).toBe(model.coordinateOf(step.state))
        current = next
      }
    }
  }
  return record
}

/** Sends every event in every place, from every beginning. These include events that lead back or are refused. */
export function walkEveryPlace(model: Model<AnyStateMachine>): PathRecord {
  const record = emptyRecord()
  for (const beginning of model.beginnings) {
    const { options } = traversal(model)
    const map = getAdjacencyMap(model.machine, { ...options, fromState: beginning })
    for (const { state } of Object.values(map)) {
      checkSnapshot(model, state, record)
      for (const name of Object.keys(model.events)) walk(model, state, name, record)
    }
  }
  return record
}

/** Every state of the definition in which an instance can rest, as a dotted path. */
export const statesOf = (machine: AnyStateMachine): string[] =>
  leavesOf(machine).map(({ path }) => path.join('.'))

const leavesOf = (machine: AnyStateMachine) =>
  getStateNodes(machine).filter(({ type }) => type === 'atomic' || type === 'final')

/** Every transition of the definition: its state, event, position among the transitions of that event, and target. */
const transitionsOf = (machine: AnyStateMachine): string[] => [...names(machine).values()]

/** Both outcomes of every guard of the definition. */
const guardsOf = (machine: AnyStateMachine): string[] =>
  [...names(machine)].flatMap(([transition, name]) =>
    transition.guard === undefined ? [] : [`${name} held`, `${name} failed`],
  )

/** Sends one event in one state. The definition, `advance` and storage must agree. Returns the next snapshot. */
function walk(
  model: Model<AnyStateMachine>,
  current: AnyMachineSnapshot,
  name: string,
  record: PathRecord,
): AnyMachineSnapshot {
  const { machine } = model
  const event = model.events[name]?.(current)
  if (event === undefined) throw new Error(`the model has no event ${name}`)
  const transitionNames = names(machine)
  const [transition] = current.status === 'active' ? machine.getTransitionData(current, event) : []
  noteGuards(machine, current, event, transition, record)
  record.steps += 1
  if (transition === undefined) {
    expect([name, accepts(current, event)]).toEqual([name, false])
    expect(() => advance(machine, current, event)).toThrow(IllegalMove)
    record.refused.add(`${pathOf(current.value)} ${name}`)
    return current
  }
  expect([name, accepts(current, event)]).toEqual([name, true])
  const move = advance(machine, current, event)
  const target = transition.target?.[0]
  expect(move.from).toBe(pathOf(current.value))
  // A target with inner states is entered at its initial state.
  if (target !== undefined) expect(`${move.to}.`).toStartWith(`${target.path.join('.')}.`)
  else expect(move.to).toBe(move.from)
  expect(move.effects).toEqual(effectsOf(machine, transition))
  record.covered.add(transitionNames.get(transition) ?? '?')
  checkSnapshot(model, move.next, record)
  return move.next
}

/** Checks a reached snapshot: storage preserves it, and final states accept no event. */
function checkSnapshot(model: Model<AnyStateMachine>, now: AnyMachineSnapshot, record: PathRecord): void {
  const { machine } = model
  const text = JSON.stringify(store(now))
  if (record.checked.has(text)) return
  record.checked.add(text)
  const restored: AnyMachineSnapshot = restore(machine, JSON.parse(text))
  expect(store(restored)).toEqual(store(now))
  expect(pathOf(restored.value)).toBe(pathOf(now.value))
  model.check(restored)
  const node = leavesOf(machine).find(({ path }) => path.join('.') === pathOf(now.value))
  expect(now.status).toBe(node?.type === 'final' ? 'done' : 'active')
  for (const make of Object.values(model.events)) {
    const event = make(now)
    // A restored snapshot accepts the same events as the original.
    expect(accepts(restored, event)).toBe(accepts(now, event))
    if (now.status === 'active') continue
    expect(accepts(now, event)).toBe(false)
    expect(() => advance(machine, now, event)).toThrow(IllegalMove)
  }
  record.coordinates.add(model.coordinateOf(now))
  record.states.add(pathOf(now.value))
}

/** Records guard outcomes: the guards of candidates before the taken transition failed. */
function noteGuards(
  machine: AnyStateMachine,
  before: AnyMachineSnapshot,
  event: { type: string },
  chosen: AnyTransitionDefinition | undefined,
  record: PathRecord,
): void {
  if (before.status !== 'active') return
  const transitionNames = names(machine)
  for (const candidate of getNextTransitions(before).filter(({ eventType }) => eventType === event.type)) {
    if (candidate.guard !== undefined)
      record.guards.add(`${transitionNames.get(candidate)} ${candidate === chosen ? 'held' : 'failed'}`)
    if (candidate === chosen) return
  }
}

function traversal(model: Model<AnyStateMachine>) {
  const nameOfEvent = new WeakMap<object, string>()
  const nameOf = (event: object) => nameOfEvent.get(event) ?? ''
  return {
    nameOf,
    options: {
      events: (current: AnyMachineSnapshot) =>
        Object.entries(model.events).map(([name, make]) => {
          const event = make(current)
          nameOfEvent.set(event, name)
          return event
        }),
      serializeState: (snapshot: AnyMachineSnapshot) => model.coordinateOf(snapshot),
      serializeEvent: nameOf,
      // Final states accept no event, so the traversal stops there.
      stopWhen: (snapshot: AnyMachineSnapshot) => snapshot.status !== 'active',
    },
  }
}

const named = new WeakMap<AnyStateMachine, Map<AnyTransitionDefinition, string>>()

function names(machine: AnyStateMachine): Map<AnyTransitionDefinition, string> {
  const cached = named.get(machine)
  if (cached !== undefined) return cached
  const found = new Map<AnyTransitionDefinition, string>()
  for (const node of [machine.root, ...getStateNodes(machine)])
    for (const [event, transitions] of node.transitions)
      transitions.forEach((transition, index) => {
        const guard = transition.guard === undefined ? '' : ` if ${String(transition.guard)}`
        const target = transition.target?.map((state) => state.path.join('.')).join() ?? 'stays'
        found.set(transition, `${node.path.join('.')} ${event} ${index + 1}${guard}: ${target}`)
      })
  named.set(machine, found)
  return found
}

/** The actions of a transition that are effects. Assignments are internal to the machine and left out. */
function effectsOf(machine: AnyStateMachine, { actions }: AnyTransitionDefinition): string[] {
  return actions.flatMap((action) => {
    const type = typeof action === 'string' ? action : 'type' in action ? action.type : ''
    const implementation: unknown = machine.implementations.actions[type]
    const isAssign =
      typeof implementation === 'function' &&
      'type' in implementation &&
      implementation.type === 'xstate.assign'
    return isAssign ? [] : [type]
  })
}

/** Plays events in order; every snapshot passes through storage. The returned effects are those of the last event. */
export function play<Machine extends AnyStateMachine>(
  machine: Machine,
  first: SnapshotFrom<Machine>,
  events: readonly EventFromLogic<Machine>[],
): { snapshot: SnapshotFrom<Machine>; effects: string[] } {
  let played = { snapshot: first, effects: [] as string[] }
  for (const event of events) {
    const stored = JSON.parse(JSON.stringify(store(played.snapshot)))
    const { next, effects } = advance(machine, restore(machine, stored), event)
    played = { snapshot: next, effects }
  }
  return played
}

/** Asserts the next state and the effects of one event in one state. `expected` is undefined for a refused event. */
export function expectMove<Machine extends AnyStateMachine>(
  machine: Machine,
  snapshot: SnapshotFrom<Machine>,
  event: EventFromLogic<Machine>,
  expected: readonly string[] | undefined,
): void {
  const move = () => advance(machine, snapshot, event)
  expect(accepts(snapshot, event)).toBe(expected !== undefined)
  if (expected === undefined) expect(move).toThrow(IllegalMove)
  else expect([move().to, ...move().effects]).toEqual([...expected])
}

/** Asserts that the walks have seen every state, transition and guard outcome of the definition. */
export function expectWhole(machine: AnyStateMachine, paths: PathRecord, places: PathRecord): void {
  expect([...paths.states].sort()).toEqual(statesOf(machine).sort())
  expect([...places.states].sort()).toEqual(statesOf(machine).sort())
  expect([...new Set([...paths.covered, ...places.covered])].sort()).toEqual(transitionsOf(machine).sort())
  expect([...places.guards].sort()).toEqual(guardsOf(machine).sort())
}
