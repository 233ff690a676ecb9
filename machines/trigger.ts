import { assign, initialTransition, type SnapshotFrom, setup } from 'xstate'
import { pathOf } from './advance.ts'
import { makeMigrate } from './migrate.ts'

/** The values that guards need. Times are milliseconds since 1970 on the database's clock; they arrive inside events. */
interface TriggerContext {
  cooldownSeconds: number
  firedAt: number | null
}

export type TriggerEvent =
  /** The awaited event has happened. Refused while the trigger is disabled or still cools. */
  | { type: 'fired'; at: number }
  /** The cooldown may be over. */
  | { type: 'cooled'; at: number }
  /** The trigger should have fired, but its pipeline cannot run. */
  | { type: 'skipped' }
  | { type: 'enabled'; at: number }
  | { type: 'disabled' }
  | { type: 'cooldownChanged'; cooldownSeconds: number; at: number }

interface Args {
  context: TriggerContext
  event: TriggerEvent
}

/** The end of the cooldown; null: there is no cooldown. */
export const coolingUntil = ({ firedAt, cooldownSeconds }: TriggerContext): number | null =>
  firedAt === null || cooldownSeconds === 0 ? null : firedAt + cooldownSeconds * 1_000

const hasCooled = ({ context, event }: Args) =>
  'at' in event && (coolingUntil(context) ?? Number.NEGATIVE_INFINITY) <= event.at

/**
 * A trigger of a pipeline: armed, cooling after a firing, or disabled. Effects: requestRun (one run for one event, in the same
 * transaction), logSkip.
 */
export const triggerMachine = setup({
  types: { context: {} as TriggerContext, events: {} as TriggerEvent },
  guards: {
    hasCooled,
    hasCooldown: ({ context }) => context.cooldownSeconds > 0,
    isStillCooling: (args: Args) => !hasCooled(args),
    wouldStillCool: ({ context, event }) =>
      event.type === 'cooldownChanged' &&
      !hasCooled({ context: { ...context, cooldownSeconds: event.cooldownSeconds }, event }),
  },
  actions: {
    recordFiring: assign({
      firedAt: ({ context, event }) => (event.type === 'fired' ? event.at : context.firedAt),
    }),
    setCooldown: assign({
      cooldownSeconds: ({ context, event }) =>
        event.type === 'cooldownChanged' ? event.cooldownSeconds : context.cooldownSeconds,
    }),
    requestRun: () => {},
    logSkip: () => {},
  },
}).createMachine({
  id: 'trigger',
  context: { cooldownSeconds: 0, firedAt: null },
  initial: 'armed',
  states: {
    armed: {
      on: {
        fired: [
          { target: 'cooling', guard: 'hasCooldown', actions: ['recordFiring', 'requestRun'] },
          { target: 'armed', actions: ['recordFiring', 'requestRun'] },
        ],
        skipped: { target: 'armed', actions: ['logSkip'] },
        disabled: { target: 'disabled' },
        cooldownChanged: [
          { target: 'cooling', guard: 'wouldStillCool', actions: ['setCooldown'] },
          { target: 'armed', actions: ['setCooldown'] },
        ],
      },
    },
    cooling: {
      on: {
        // The cooldown ends by time: a firing after its end counts even before a `cooled` event.
        fired: { target: 'cooling', guard: 'hasCooled', actions: ['recordFiring', 'requestRun'] },
        cooled: { target: 'armed', guard: 'hasCooled' },
        skipped: { target: 'cooling', actions: ['logSkip'] },
        disabled: { target: 'disabled' },
        cooldownChanged: [
          { target: 'cooling', guard: 'wouldStillCool', actions: ['setCooldown'] },
          { target: 'armed', actions: ['setCooldown'] },
        ],
      },
    },
    disabled: {
      on: {
        // Disabling a trigger does not shorten its cooldown.
        enabled: [{ target: 'cooling', guard: 'isStillCooling' }, { target: 'armed' }],
        cooldownChanged: { target: 'disabled', actions: ['setCooldown'] },
      },
    },
  },
})

export type TriggerSnapshot = SnapshotFrom<typeof triggerMachine>
export type TriggerState = 'armed' | 'cooling' | 'disabled'

export const { version: TRIGGER_MACHINE_VERSION, migrate: migrateTrigger } = makeMigrate('trigger', [])

/** The snapshot of a new trigger. */
export function newTrigger({
  enabled,
  cooldownSeconds,
}: {
  enabled: boolean
  cooldownSeconds: number
}): TriggerSnapshot {
  const [first] = initialTransition(triggerMachine)
  return triggerMachine.resolveState({
    value: enabled ? first.value : 'disabled',
    context: { cooldownSeconds, firedAt: null },
    status: 'active',
  })
}

/** Columns derived from a snapshot, written in the same UPDATE. */
export function triggerColumns(snapshot: TriggerSnapshot) {
  const state = pathOf(snapshot.value) as TriggerState
  const until = state === 'cooling' ? coolingUntil(snapshot.context) : null
  return {
    state,
    cooldownSeconds: snapshot.context.cooldownSeconds,
    coolingUntil: until === null ? null : new Date(until),
    lastTriggeredAt: snapshot.context.firedAt === null ? null : new Date(snapshot.context.firedAt),
  }
}

/** Whole seconds until a cooling trigger may fire again; at least 1. */
export const retryAfterSeconds = (snapshot: TriggerSnapshot, at: number) =>
  Math.max(1, Math.ceil(((coolingUntil(snapshot.context) ?? at) - at) / 1_000))
