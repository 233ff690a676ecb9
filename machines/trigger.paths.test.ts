import { describe, expect, test } from 'bun:test'
import { pathOf } from './advance.ts'
import { expectWhole, type Model, walkEveryPlace, walkSimplePaths } from './test-paths.ts'
import { coolingUntil, newTrigger, retryAfterSeconds, triggerColumns, triggerMachine } from './trigger.ts'

const START = Date.UTC(2026, 0, 1)
const DAY = 86_400_000
const COOLDOWNS = [0, 60]

/** One millisecond before the end of the cooldown, and exactly at the end. */
const TIMES: Record<string, (until: number) => number> = {
  'too soon': (until) => until - 1,
  'just in time': (until) => until,
}

const model: Model<typeof triggerMachine> = {
  machine: triggerMachine,
  beginnings: [
    ...COOLDOWNS.map((cooldownSeconds) => newTrigger({ enabled: true, cooldownSeconds })),
    newTrigger({ enabled: false, cooldownSeconds: 60 }),
  ],
  events: {
    skipped: () => ({ type: 'skipped' }),
    disabled: () => ({ type: 'disabled' }),
    ...Object.fromEntries(
      Object.entries(TIMES).flatMap(([when, at]) =>
        (['fired', 'cooled', 'enabled'] as const).map((type) => [
          `${type} ${when}`,
          ({ context }) => ({ type, at: at(coolingUntil(context) ?? START) }),
        ]),
      ),
    ),
    ...Object.fromEntries(
      COOLDOWNS.flatMap((cooldownSeconds) =>
        Object.entries(TIMES).map(([when, at]) => [
          `cooldown becomes ${cooldownSeconds} ${when}`,
          ({ context }) => ({
            type: 'cooldownChanged',
            cooldownSeconds,
            at: at((context.firedAt ?? START) + cooldownSeconds * 1_000),
          }),
        ]),
      ),
    ),
  } satisfies Model<typeof triggerMachine>['events'],
  // Guards only compare times with the end of the cooldown.
  coordinateOf: ({ value, context }) =>
    `${pathOf(value)} ${context.cooldownSeconds} ${context.firedAt === null ? 'never fired' : 'fired'}`,
  check(snapshot) {
    const state = pathOf(snapshot.value)
    const { firedAt, cooldownSeconds } = snapshot.context
    const columns = triggerColumns(snapshot)
    expect<string>(columns.state).toBe(state)
    expect(columns.cooldownSeconds).toBe(cooldownSeconds)
    expect(columns.lastTriggeredAt?.getTime() ?? null).toBe(firedAt)
    // `coolingUntil` is set exactly while the trigger cools.
    expect(columns.coolingUntil?.getTime() ?? null).toBe(
      state === 'cooling' ? (firedAt ?? 0) + cooldownSeconds * 1_000 : null,
    )
    if (state === 'cooling') {
      expect(cooldownSeconds).toBeGreaterThan(0)
      expect(retryAfterSeconds(snapshot, firedAt ?? 0)).toBe(cooldownSeconds)
    }
    expect(retryAfterSeconds(snapshot, START + 2 * DAY ** 2)).toBe(1)
  },
}

describe('trigger', () => {
  const paths = walkSimplePaths(model)
  const places = walkEveryPlace(model)

  test('walks all simple paths of the trigger statechart', () => {
    expect(paths.paths).toBeGreaterThan(3_000)
  })
  test('reaches every state, transition and guard outcome of a trigger', () => {
    expectWhole(triggerMachine, paths, places)
  })
})
