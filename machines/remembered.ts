import type { AnyMachineSnapshot, AnyStateMachine, EventFromLogic, SnapshotFrom } from 'xstate'
import { accepts, advance, type Move, restore, type Stored } from './advance.ts'

/** Answers kept per machine. Instances on their usual way have a few dozen different states between them. */
const ANSWERS_KEPT = 2_000

/** A machine that is asked again and again. */
export interface Remembered<Machine extends AnyStateMachine> {
  restore(stored: Stored): SnapshotFrom<Machine>
  /** Null: the instance does not accept this event in its state. */
  move(current: SnapshotFrom<Machine>, event: EventFromLogic<Machine>): Move<Machine> | null
}

/**
 * A machine is pure and its snapshots never change: the same state and event always have the same answer. So what the
 * machine has answered once is remembered, and thousands of instances in the same state ask it only once.
 */
export function remember<Machine extends AnyStateMachine>(machine: Machine): Remembered<Machine> {
  const snapshots = new Answers<SnapshotFrom<Machine>>()
  const moves = new Answers<Move<Machine> | null>()
  const keys = new WeakMap<object, string>()

  /** What an instance is, as text: equal texts are equal states. */
  function keyOf(snapshot: AnyMachineSnapshot) {
    const known = keys.get(snapshot)
    if (known !== undefined) return known
    const key = JSON.stringify([snapshot.value, snapshot.context, snapshot.status])
    keys.set(snapshot, key)
    return key
  }

  return {
    restore: (stored) =>
      snapshots.of(JSON.stringify([stored.value, stored.context, stored.status]), () =>
        restore(machine, stored),
      ),
    move: (current: SnapshotFrom<Machine> & AnyMachineSnapshot, event) =>
      moves.of(`${keyOf(current)}${JSON.stringify(event)}`, () =>
        accepts(current, event) ? advance(machine, current, event) : null,
      ),
  }
}

/** Forgets the oldest when it is full. */
class Answers<Answer> {
  readonly #kept = new Map<string, Answer>()

  of(key: string, ask: () => Answer): Answer {
    const known = this.#kept.get(key)
    if (known !== undefined) return known
    const answer = ask()
    const [oldest] = this.#kept.keys()
    if (this.#kept.size >= ANSWERS_KEPT && oldest !== undefined) this.#kept.delete(oldest)
    this.#kept.set(key, answer)
    return answer
  }
}
