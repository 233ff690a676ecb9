import {
  type AnyMachineSnapshot,
  type AnyStateMachine,
  type EventFromLogic,
  type EventObject,
  type SnapshotFrom,
  transition,
} from 'xstate'

/** The stored part of an instance: enough to resolve the instance, without derived values. */
export interface Stored {
  value: unknown
  context: unknown
  status: string
}

/** The outcome of one move. `from` and `to` are dotted state paths. `effects` are names, in order. */
export interface Move<Machine extends AnyStateMachine> {
  next: SnapshotFrom<Machine>
  from: string
  to: string
  effects: string[]
}

/** The instance does not accept this event in its state. The caller's view is old, or the request comes too late. */
export class IllegalMove extends Error {
  constructor(
    readonly machine: string,
    readonly state: string,
    readonly event: string,
  ) {
    super(`${machine} in state ${state} does not accept ${event}`)
  }
}

/**
 * Every state change goes through this function. It is pure: time and facts arrive inside the event. XState's `transition()`
 * neither stops at a final state nor refuses an unhandled event; this function refuses both with `IllegalMove`.
 */
export function advance<Machine extends AnyStateMachine>(
  machine: Machine,
  current: SnapshotFrom<Machine> & AnyMachineSnapshot,
  event: EventFromLogic<Machine>,
): Move<Machine> {
  const before: AnyMachineSnapshot = current
  const from = pathOf(before.value)
  if (!accepts(before, event)) throw new IllegalMove(machine.id, from, event.type)
  const [next, actions] = transition(machine, current, event)
  const after: AnyMachineSnapshot = next
  return { next, from, to: pathOf(after.value), effects: actions.map((action) => action.type) }
}

/** Whether an instance has a transition for this event, including a transition to the same state. */
export const accepts = (current: AnyMachineSnapshot, event: EventObject): boolean =>
  current.status === 'active' && current.can(event)

/** Resolves a stored snapshot to a snapshot of the machine. */
export function restore<Machine extends AnyStateMachine>(
  machine: Machine,
  stored: Stored,
): SnapshotFrom<Machine> {
  const config = stored as Parameters<Machine['resolveState']>[0]
  return machine.resolveState(config) as SnapshotFrom<Machine>
}

export const store = (snapshot: { value: unknown; context: unknown; status: string }): Stored => ({
  value: snapshot.value,
  context: snapshot.context,
  status: snapshot.status,
})

/** `{ running: 'executing' }` is `running.executing`. */
export function pathOf(value: unknown): string {
  if (typeof value === 'string') return value
  if (typeof value !== 'object' || value === null)
    throw new TypeError(`state value ${value} is neither a text nor an object`)
  return Object.entries(value)
    .map(([key, inner]) => `${key}.${pathOf(inner)}`)
    .join(' ')
}
