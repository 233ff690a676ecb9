import {
  type AnyMachineSnapshot,
  type AnyStateMachine,
  type EventFromLogic,
  type EventObject,
  type SnapshotFrom,
  transition,
} from 'xstate'

/** What is stored of an instance: enough to resolve it, nothing that can be derived. */
export interface Stored {
  value: unknown
  context: unknown
  status: string
}

/** The outcome of one move. `from` and `to` are dotted state paths; effects are names, in order. */
export interface Move<Machine extends AnyStateMachine> {
  next: SnapshotFrom<Machine>
  from: string
  to: string
  effects: string[]
}

/** The instance does not accept this event in its state: the caller's view of it is old, or the request comes too late. */
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
 * The one door through which every state changes. Pure: time and facts arrive inside the event.
 * XState's transition() neither stops at a final state nor refuses an unhandled event; both are refused here.
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

/** Whether an instance would move, or stay and act, on this event. */
export const accepts = (current: AnyMachineSnapshot, event: EventObject): boolean =>
  current.status === 'active' && current.can(event)

/** Brings what was stored back to life. */
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
  if (typeof value !== 'object' || value === null) throw new TypeError(`${value} is no state`)
  return Object.entries(value)
    .map(([key, inner]) => `${key}.${pathOf(inner)}`)
    .join(' ')
}
