// Each statechart as data, which the inspector draws and serves. The data comes from the machines, so both always agree.
import assert from 'node:assert/strict'
import type { AnyStateMachine, AnyStateNode } from 'xstate'
import { type DirectedGraphNode, toDirectedGraph } from 'xstate/graph'
import type { Stored } from '../../machines/advance.ts'
import { DRAFT_MACHINE_VERSION, draftMachine, migrateDraft } from '../../machines/draft.ts'
import { migrateRun, RUN_MACHINE_VERSION, runMachine } from '../../machines/run.ts'
import { migrateTrigger, TRIGGER_MACHINE_VERSION, triggerMachine } from '../../machines/trigger.ts'
import type { Definition, MachineName, StateDefinition } from './schema.ts'
import { DESCRIPTIONS, SUMMARIES } from './wording.ts'

interface Source {
  machine: AnyStateMachine
  version: number
  migrate(version: number, stored: Stored): Stored
}

const SOURCES: Record<MachineName, Source> = {
  run: { machine: runMachine, version: RUN_MACHINE_VERSION, migrate: migrateRun },
  draft: { machine: draftMachine, version: DRAFT_MACHINE_VERSION, migrate: migrateDraft },
  trigger: { machine: triggerMachine, version: TRIGGER_MACHINE_VERSION, migrate: migrateTrigger },
}

const definitions = new Map<MachineName, Definition>()

/** The statechart of a machine, derived once and cached. */
export function definitionOf(name: MachineName): Definition {
  const cached = definitions.get(name)
  if (cached !== undefined) return cached
  const definition = define(name, SOURCES[name])
  definitions.set(name, definition)
  return definition
}

/** The stored instance, migrated to this program's machine version; null if a newer program wrote the instance. */
export const migrated = (name: MachineName, version: number, stored: Stored): Stored | null =>
  version > SOURCES[name].version ? null : SOURCES[name].migrate(version, stored)

/** The innermost states of a machine, which an instance can be in. */
export const leafStatesOf = ({ states }: Definition): StateDefinition[] =>
  states.filter(({ kind }) => kind !== 'compound')

/** Whether `path` is `ancestor` or a state inside `ancestor`. */
export const isWithin = (path: string, ancestor: string) =>
  path === ancestor || path.startsWith(`${ancestor}.`)

/** The fields of a history row that identify its transition. */
interface TakenTransition {
  event: string
  from: string
  to: string
  effects: readonly string[]
}

/** Id of the initial arrow, by which every instance is created. */
export const CREATED = 'created'

/** The transition of a history row; null if this machine version has no such transition. */
export function transitionTaken({ transitions }: Definition, taken: TakenTransition): string | null {
  if (taken.from === '') return CREATED
  const found = transitions.find(
    ({ event, from, to, enters, effects }) =>
      event === taken.event &&
      isWithin(taken.from, from) &&
      (from === to ? taken.from === taken.to : enters === taken.to) &&
      effects.join() === taken.effects.join(),
  )
  return found?.id ?? null
}

function define(name: MachineName, { machine, version }: Source): Definition {
  const root = toDirectedGraph(machine)
  const nodes = descendantsOf(root)
  return {
    machine: name,
    version,
    summary: SUMMARIES[name],
    initial: leafOf(machine.root),
    states: nodes.map(({ stateNode }) => stateOf(name, stateNode)),
    transitions: nodes.flatMap(({ edges }) => {
      const occurrences = new Map<string, number>()
      return edges.map(({ source, target, transition }) => {
        const occurrence = occurrences.get(transition.eventType) ?? 0
        occurrences.set(transition.eventType, occurrence + 1)
        const actions = transition.actions.map(nameOf)
        const changes = (action: string) => isUpdate(machine, action)
        return {
          id: `${pathOf(source)}:${transition.eventType}:${occurrence}`,
          event: transition.eventType,
          from: pathOf(source),
          to: pathOf(target),
          enters: leafOf(target),
          guard: transition.guard === undefined ? null : nameOf(transition.guard),
          updates: actions.filter(changes),
          effects: actions.filter((action) => !changes(action)),
        }
      })
    }),
  }
}

const descendantsOf = (node: DirectedGraphNode): DirectedGraphNode[] =>
  node.children.flatMap((child) => [child, ...descendantsOf(child)])

const pathOf = ({ path }: AnyStateNode) => path.join('.')

function stateOf(name: MachineName, node: AnyStateNode): StateDefinition {
  const path = pathOf(node)
  const { parent } = node
  const description = DESCRIPTIONS[name][path]
  assert(description, `the state ${path} of ${name} has no description`)
  return {
    path,
    name: node.key,
    parent: parent === undefined || parent.path.length === 0 ? null : pathOf(parent),
    kind: node.type === 'final' ? 'final' : node.type === 'compound' ? 'compound' : 'atomic',
    initial: parent !== undefined && initialOf(parent) === node,
    description,
  }
}

/** XState declares an initial transition for every state, but only compound states have one. */
const initialOf = (node: AnyStateNode): AnyStateNode | undefined =>
  node.type === 'compound' ? node.initial.target[0] : undefined

function leafOf(node: AnyStateNode): string {
  const initial = initialOf(node)
  return initial === undefined ? pathOf(node) : leafOf(initial)
}

/** The name of a guard or action. Machines always name them, as text or as `{type}`. */
function nameOf(named: unknown): string {
  if (typeof named === 'string') return named
  if (typeof named === 'object' && named !== null && 'type' in named) return String(named.type)
  throw new Error('a guard or an action of a machine has no name')
}

/** XState performs its own actions (`assign`) and reports only the other actions as effects. */
function isUpdate(machine: AnyStateMachine, action: string): boolean {
  const implementation: unknown = machine.implementations.actions[action]
  return typeof implementation === 'function' && 'resolve' in implementation
}
