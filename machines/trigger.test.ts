import { describe, expect, test } from 'bun:test'
import { accepts, advance, pathOf } from './advance.ts'
import { expectMove, play } from './test-paths.ts'
import {
  coolingUntil,
  newTrigger,
  retryAfterSeconds,
  type TriggerEvent,
  type TriggerSnapshot,
  triggerColumns,
  triggerMachine,
} from './trigger.ts'

const COOLDOWN = 10
/** The time of the firing that the states below remember. */
const FIRED = 1_000_000
const OVER = FIRED + COOLDOWN * 1_000

const fired = (at: number): TriggerEvent => ({ type: 'fired', at })
const cooled = (at: number): TriggerEvent => ({ type: 'cooled', at })
const enabled = (at: number): TriggerEvent => ({ type: 'enabled', at })
const changed = (cooldownSeconds: number, at: number): TriggerEvent => ({
  type: 'cooldownChanged',
  cooldownSeconds,
  at,
})
const disabled: TriggerEvent = { type: 'disabled' }
const skipped: TriggerEvent = { type: 'skipped' }

function played(first: TriggerSnapshot, ...events: TriggerEvent[]) {
  const { snapshot } = play(triggerMachine, first, events)
  return { snapshot, ...triggerColumns(snapshot) }
}

const plain = newTrigger({ enabled: true, cooldownSeconds: 0 })
const patient = newTrigger({ enabled: true, cooldownSeconds: COOLDOWN })

/** Each state in every condition that a guard distinguishes. */
const STATES: Record<string, TriggerSnapshot> = {
  'armed, new, without a cooldown': plain,
  'armed, new': patient,
  'armed, fired without a cooldown': played(plain, fired(FIRED)).snapshot,
  'armed, cooled': played(patient, fired(FIRED), cooled(OVER)).snapshot,
  cooling: played(patient, fired(FIRED)).snapshot,
  'disabled, new': newTrigger({ enabled: false, cooldownSeconds: COOLDOWN }),
  'disabled, fired': played(patient, fired(FIRED), disabled).snapshot,
}

const EVENTS: Record<string, TriggerEvent> = {
  'fired early': fired(OVER - 1),
  'fired late': fired(OVER),
  'cooled early': cooled(OVER - 1),
  'cooled late': cooled(OVER),
  skipped,
  'enabled early': enabled(OVER - 1),
  'enabled late': enabled(OVER),
  disabled,
  'no cooldown early': changed(0, OVER - 1),
  'longer cooldown early': changed(2 * COOLDOWN, OVER - 1),
  'shorter cooldown early': changed(1, OVER - 1),
  'longer cooldown late': changed(2 * COOLDOWN, OVER),
  'same cooldown late': changed(COOLDOWN, OVER),
}

/** The next state and the effects for every state and event. An event without an entry is refused. */
type Row = Partial<Record<string, [string, ...string[]]>>
const armedWith = (afterFiring: 'armed' | 'cooling', hasFired: boolean): Row => ({
  'fired early': [afterFiring, 'requestRun'],
  'fired late': [afterFiring, 'requestRun'],
  skipped: ['armed', 'logSkip'],
  disabled: ['disabled'],
  'no cooldown early': ['armed'],
  'longer cooldown early': [hasFired ? 'cooling' : 'armed'],
  'shorter cooldown early': ['armed'],
  'longer cooldown late': [hasFired ? 'cooling' : 'armed'],
  'same cooldown late': ['armed'],
})
const disabledWith = (early: 'armed' | 'cooling'): Row => ({
  'enabled early': [early],
  'enabled late': ['armed'],
  'no cooldown early': ['disabled'],
  'longer cooldown early': ['disabled'],
  'shorter cooldown early': ['disabled'],
  'longer cooldown late': ['disabled'],
  'same cooldown late': ['disabled'],
})
const TABLE: Record<string, Row> = {
  'armed, new, without a cooldown': armedWith('armed', false),
  'armed, new': armedWith('cooling', false),
  'armed, fired without a cooldown': armedWith('armed', true),
  'armed, cooled': armedWith('cooling', true),
  cooling: {
    'fired late': ['cooling', 'requestRun'],
    'cooled late': ['armed'],
    skipped: ['cooling', 'logSkip'],
    disabled: ['disabled'],
    'no cooldown early': ['armed'],
    'longer cooldown early': ['cooling'],
    'shorter cooldown early': ['armed'],
    'longer cooldown late': ['cooling'],
    'same cooldown late': ['armed'],
  },
  'disabled, new': disabledWith('armed'),
  'disabled, fired': disabledWith('cooling'),
}

describe('every state and every event', () => {
  for (const [state, snapshot] of Object.entries(STATES)) {
    for (const [name, event] of Object.entries(EVENTS)) {
      const expected = TABLE[state]?.[name]
      test(`event '${name}' in state '${state}': ${expected?.join(', ') ?? 'refused'}`, () => {
        expect(pathOf(snapshot.value)).toBe(state.split(',')[0] ?? '')
        expectMove(triggerMachine, snapshot, event, expected)
      })
    }
  }
})

describe('cooldown', () => {
  test('counts from the last firing and sets the column `coolingUntil`', () => {
    const first = played(patient, fired(FIRED))
    expect(first).toMatchObject({
      state: 'cooling',
      lastTriggeredAt: new Date(FIRED),
      coolingUntil: new Date(OVER),
      cooldownSeconds: COOLDOWN,
    })
    expect(played(first.snapshot, fired(OVER)).coolingUntil).toEqual(new Date(OVER + COOLDOWN * 1_000))
  })

  test('an ignored firing does not lengthen the cooldown', () => {
    const { snapshot } = played(patient, fired(FIRED))
    expect(accepts(snapshot, fired(OVER - 1))).toBe(false)
    expect(coolingUntil(snapshot.context)).toBe(OVER)
  })

  test('a skip does not change the time of the last firing', () => {
    expect(played(patient, skipped)).toMatchObject({ state: 'armed', lastTriggeredAt: null })
    expect(played(patient, fired(FIRED), skipped)).toMatchObject({ lastTriggeredAt: new Date(FIRED) })
  })

  test('disabling a trigger neither shortens nor lengthens its cooldown', () => {
    const paused = played(patient, fired(FIRED), disabled)
    expect(paused).toMatchObject({ state: 'disabled', coolingUntil: null, lastTriggeredAt: new Date(FIRED) })
    expect(played(paused.snapshot, enabled(OVER - 1)).coolingUntil).toEqual(new Date(OVER))
    expect(played(paused.snapshot, enabled(OVER)).state).toBe('armed')
  })

  test('a cooldown lengthened while the trigger is disabled applies after enabling', () => {
    const paused = played(patient, fired(FIRED), disabled, changed(2 * COOLDOWN, OVER))
    expect(played(paused.snapshot, enabled(OVER)).coolingUntil).toEqual(new Date(OVER + COOLDOWN * 1_000))
  })

  test.each([
    [FIRED, COOLDOWN],
    [OVER - 1_001, 2],
    [OVER - 1_000, 1],
    [OVER - 1, 1],
    [OVER, 1],
  ])('at %p the caller must wait %p seconds', (at, seconds) => {
    expect(retryAfterSeconds(played(patient, fired(FIRED)).snapshot, at)).toBe(seconds)
  })
})

test('two firings are never closer together than the current cooldown', () => {
  // A deterministic generator takes the same walk every time.
  let seed = 42
  const random = (below: number) => {
    seed = (seed * 1_103_515_245 + 12_345) % 2_147_483_648
    return seed % below
  }
  let snapshot = patient
  let at = FIRED
  let last: number | null = null
  let firings = 0
  for (let step = 0; step < 20_000; step++) {
    at += random(4_000)
    const events = [
      fired(at),
      fired(at),
      cooled(at),
      skipped,
      enabled(at),
      disabled,
      changed(random(3) * 5, at),
    ]
    const event = events[random(events.length)] ?? skipped
    if (!accepts(snapshot, event)) continue
    const { effects, next } = advance(triggerMachine, snapshot, event)
    if (effects.includes('requestRun')) {
      if (last !== null) expect(at - last).toBeGreaterThanOrEqual(snapshot.context.cooldownSeconds * 1_000)
      last = at
      firings++
    }
    snapshot = next
    const { state, coolingUntil: until } = triggerColumns(snapshot)
    expect(until !== null).toBe(state === 'cooling')
  }
  expect(firings).toBeGreaterThan(500)
})
