import { describe, expect, test } from 'bun:test'
import type { TSchema } from '@sinclair/typebox'
import {
  assertNever,
  FromWorker,
  parseMessage,
  ToDispatcher,
  ToReaper,
  ToScheduler,
  ToTriggers,
} from './channel.ts'

const THREAD = { processId: 'p', databaseUrl: 'postgres://user:secret@host/db', logFormat: 'text' } as const
const STOP = { type: 'stop' } as const

/** One of each, or more: a variant that is missing here does not compile. */
type OfEach<Message extends { type: string }> = { [T in Message['type']]: Extract<Message, { type: T }>[] }

const toDispatcher: OfEach<ToDispatcher> = {
  start: [
    {
      type: 'start',
      settings: {
        ...THREAD,
        runnerUrls: ['http://r'],
        publicUrl: 'http://a',
        sidecarToken: 'a secret',
        sidecarTokenUrls: ['http://r'],
        tellsInputs: true,
      },
    },
  ],
  nudge: [
    { type: 'nudge', about: 'runRequested' },
    { type: 'nudge', about: 'outbox' },
  ],
  stop: [STOP],
}
const toTriggers: OfEach<ToTriggers> = {
  start: [{ type: 'start', settings: THREAD }],
  nudge: [
    { type: 'nudge', about: 'eventRecorded' },
    { type: 'nudge', about: 'triggersChanged' },
  ],
  stop: [STOP],
}
const toScheduler: OfEach<ToScheduler> = { start: [{ type: 'start', settings: THREAD }], stop: [STOP] }
const toReaper: OfEach<ToReaper> = {
  start: [{ type: 'start', settings: { ...THREAD, isAsked: true } }],
  objectAnswer: [
    { op: 'list', page: { objects: [], truncated: true } },
    { op: 'versions', page: { versions: [], truncated: false } },
    { op: 'read', bytes: new Uint8Array([1]) },
    { op: 'done' },
    { op: 'failed', message: 'gone' },
  ].map(
    (answer, id) => ({ type: 'objectAnswer', id, answer }) as Extract<ToReaper, { type: 'objectAnswer' }>,
  ),
  stop: [STOP],
}
const fromWorker: OfEach<FromWorker> = {
  ready: [{ type: 'ready' }],
  alive: [{ type: 'alive' }],
  runsEnded: [
    { type: 'runsEnded', status: 'success', count: 0 },
    { type: 'runsEnded', status: 'failed', count: 1 },
    { type: 'runsEnded', status: 'cancelled', count: 2 },
  ],
  eventRecorded: [{ type: 'eventRecorded' }],
  rpcEnded: [{ type: 'rpcEnded', method: 'RunnerService/CancelRun', code: 'ok', seconds: 0.5 }],
  runsRequested: [{ type: 'runsRequested', count: 3 }],
  ticked: [{ type: 'ticked', runsRequested: 0 }],
  led: [{ type: 'led', isLeading: true }],
  reaped: [{ type: 'reaped', failures: ['logs'] }],
  objectCall: [
    { op: 'list', prefix: 'a/', limit: 1 },
    { op: 'versions', prefix: 'a/' },
    { op: 'read', key: 'a' },
    { op: 'put', key: 'a', bytes: new Uint8Array([1]) },
    { op: 'remove', key: 'a' },
    { op: 'removeVersion', key: 'a', versionId: '1' },
  ].map((call, id) => ({ type: 'objectCall', id, call }) as Extract<FromWorker, { type: 'objectCall' }>),
  stopped: [{ type: 'stopped' }],
}

const CHANNELS: Record<string, { schema: TSchema; messages: object[] }> = {
  'to the dispatcher': { schema: ToDispatcher, messages: Object.values(toDispatcher).flat() },
  'to the triggers': { schema: ToTriggers, messages: Object.values(toTriggers).flat() },
  'to the scheduler': { schema: ToScheduler, messages: Object.values(toScheduler).flat() },
  'to the reaper': { schema: ToReaper, messages: Object.values(toReaper).flat() },
  'from a thread': { schema: FromWorker, messages: Object.values(fromWorker).flat() },
}

/** Every message that differs in one field, at any depth: gone, or of a type that no field has. */
function* spoilt(message: object): Generator<object> {
  for (const [key, value] of Object.entries(message)) {
    const { [key]: _, ...rest } = message as Record<string, unknown>
    yield rest
    yield { ...message, [key]: { not: 'this' } }
    if (typeof value === 'object' && Object.getPrototypeOf(value) === Object.prototype)
      for (const inner of spoilt(value)) yield { ...message, [key]: inner }
  }
}

for (const [name, { schema, messages }] of Object.entries(CHANNELS))
  describe(name, () => {
    test.each(messages)('%j comes through as it is', (message) => {
      expect(parseMessage(schema, structuredClone(message))).toEqual(message)
    })

    test('a message that lacks anything, or has it otherwise, is refused', () => {
      for (const message of messages)
        for (const wrong of spoilt(message))
          expect(() => parseMessage(schema, wrong)).toThrow('no such message')
    })

    test('what is no message at all is refused', () => {
      for (const nothing of [undefined, null, 0, 'stop', [], {}, [STOP], { type: null }, { type: 'unknown' }])
        expect(() => parseMessage(schema, nothing)).toThrow('no such message')
    })

    test('what is for others is refused', () => {
      const own = new Set(messages.map((message) => JSON.stringify(message)))
      const foreign = Object.values(CHANNELS)
        .flatMap((channel) => channel.messages)
        // A start of another thread may hold all that this one needs.
        .filter((message) => !('settings' in message) && !own.has(JSON.stringify(message)))
      for (const message of foreign) expect(() => parseMessage(schema, message)).toThrow('no such message')
    })
  })

test('numbers that count are whole and not below zero', () => {
  for (const count of [-1, 0.5, Number.NaN, '1'])
    expect(() => parseMessage(FromWorker, { type: 'runsRequested', count })).toThrow('no such message')
})

test('an error shows the message, but never its settings', () => {
  const wrong = { type: 'start', settings: { ...THREAD, logFormat: 'xml' } }
  expect(() => parseMessage(ToScheduler, wrong)).toThrow('{"type":"start","settings":"..."}')
  expect(() => parseMessage(ToScheduler, { type: 'nudge', about: 'lunch' })).toThrow('lunch')
})

test('an error does not show what is in a file', () => {
  const wrong = { type: 'objectCall', call: { op: 'put', bytes: new Uint8Array(9) } }
  expect(() => parseMessage(FromWorker, wrong)).toThrow('{"op":"put","bytes":"..."}')
})

test('a variant that nobody handles is an error, should one come in spite of its type', () => {
  expect(() => assertNever({ type: 'new' } as never)).toThrow('unhandled message {"type":"new"}')
})
