import { describe, expect, test } from 'bun:test'
import { accepts, advance, IllegalMove, pathOf, restore, store } from './advance.ts'
import { NewerVersion } from './migrate.ts'
import {
  coolingUntil,
  migrateTrigger,
  newTrigger,
  retryAfterSeconds,
  TRIGGER_MACHINE_VERSION,
  type TriggerEvent,
  type TriggerSnapshot,
  triggerColumns,
  triggerMachine,
} from './trigger.ts'

const COOLDOWN = 10
/** The firing that the states below remember. */
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

/** Plays events from the beginning; every snapshot goes through storage on its way. */
function play(first: TriggerSnapshot, ...events: TriggerEvent[]) {
  let snapshot = first
  let effects: string[] = []
  for (const event of events) {
    const stored = JSON.parse(JSON.stringify(store(snapshot)))
    const move = advance(triggerMachine, restore(triggerMachine, stored), event)
    snapshot = move.next
    effects = move.effects
  }
  return { snapshot, effects, context: snapshot.context, ...triggerColumns(snapshot) }
}

const plain = newTrigger({ enabled: true, cooldownSeconds: 0 })
const patient = newTrigger({ enabled: true, cooldownSeconds: COOLDOWN })

/** Each state in every condition that a guard asks for. */
const STATES: Record<string, TriggerSnapshot> = {
  'armed, new, without a cooldown': plain,
  'armed, new': patient,
  'armed, fired without a cooldown': play(plain, fired(FIRED)).snapshot,
  'armed, cooled': play(patient, fired(FIRED), cooled(OVER)).snapshot,
  cooling: play(patient, fired(FIRED)).snapshot,
  'disabled, new': newTrigger({ enabled: false, cooldownSeconds: COOLDOWN }),
  'disabled, fired': play(patient, fired(FIRED), disabled).snapshot,
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

/** Every state and event: the next state and the effects; an event that is not named is refused. */
type Row = Partial<Record<string, [string, ...string[]]>>
const armedWith = (afterFiring: 'armed' | 'cooling', remembers: boolean): Row => ({
  'fired early': [afterFiring, 'requestRun'],
  'fired late': [afterFiring, 'requestRun'],
  skipped: ['armed', 'logSkip'],
  disabled: ['disabled'],
  'no cooldown early': ['armed'],
  'longer cooldown early': [remembers ? 'cooling' : 'armed'],
  'shorter cooldown early': ['armed'],
  'longer cooldown late': [remembers ? 'cooling' : 'armed'],
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
      test(`${name}, ${state}: ${expected?.join(', ') ?? 'refused'}`, () => {
        expect(pathOf(snapshot.value)).toBe(state.split(',')[0] ?? '')
        if (expected === undefined) {
          expect(accepts(snapshot, event)).toBe(false)
          expect(() => advance(triggerMachine, snapshot, event)).toThrow(IllegalMove)
          return
        }
        const move = advance(triggerMachine, snapshot, event)
        expect([move.to, ...move.effects]).toEqual(expected)
      })
    }
  }
})

describe('cooldown', () => {
  test('counts from the last firing, and the columns say until when', () => {
    const first = play(patient, fired(FIRED))
    expect(first).toMatchObject({
      state: 'cooling',
      lastTriggeredAt: new Date(FIRED),
      coolingUntil: new Date(OVER),
      cooldownSeconds: COOLDOWN,
    })
    expect(play(first.snapshot, fired(OVER)).coolingUntil).toEqual(new Date(OVER + COOLDOWN * 1_000))
  })

  test('an ignored firing does not lengthen it', () => {
    const { snapshot } = play(patient, fired(FIRED))
    expect(accepts(snapshot, fired(OVER - 1))).toBe(false)
    expect(coolingUntil(snapshot.context)).toBe(OVER)
  })

  test('a skip leaves what counts as the last firing alone', () => {
    expect(play(patient, skipped)).toMatchObject({ state: 'armed', lastTriggeredAt: null })
    expect(play(patient, fired(FIRED), skipped)).toMatchObject({ lastTriggeredAt: new Date(FIRED) })
  })

  test('a pause does not shorten it, nor does it lengthen it', () => {
    const paused = play(patient, fired(FIRED), disabled)
    expect(paused).toMatchObject({ state: 'disabled', coolingUntil: null, lastTriggeredAt: new Date(FIRED) })
    expect(play(paused.snapshot, enabled(OVER - 1)).coolingUntil).toEqual(new Date(OVER))
    expect(play(paused.snapshot, enabled(OVER)).state).toBe('armed')
  })

  test('one that was lengthened during a pause counts when it ends', () => {
    const paused = play(patient, fired(FIRED), disabled, changed(2 * COOLDOWN, OVER))
    expect(play(paused.snapshot, enabled(OVER)).coolingUntil).toEqual(new Date(OVER + COOLDOWN * 1_000))
  })

  test.each([
    [FIRED, COOLDOWN],
    [OVER - 1_001, 2],
    [OVER - 1_000, 1],
    [OVER - 1, 1],
    [OVER, 1],
  ])('at %p a caller is told to come again after %p s', (at, seconds) => {
    expect(retryAfterSeconds(play(patient, fired(FIRED)).snapshot, at)).toBe(seconds)
  })
})

describe('stored snapshots', () => {
  test('of the current version are taken as they are', () => {
    const stored = store(play(patient, fired(FIRED)).snapshot)
    expect(migrateTrigger(TRIGGER_MACHINE_VERSION, stored)).toBe(stored)
  })

  test('of a newer program are left alone', () => {
    expect(() => migrateTrigger(TRIGGER_MACHINE_VERSION + 1, store(plain))).toThrow(NewerVersion)
  })
})

test('whatever happens, two firings are never closer than the cooldown that held at the second', () => {
  // A small generator of our own: the same walk every time.
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
