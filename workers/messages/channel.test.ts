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

const THREAD = {
  processId: 'p',
  databaseUrl: 'postgres://user:secret@host/db',
  logFormat: 'text',
  tracing: null,
} as const
const STOP = { type: 'stop' } as const

/** At least one message per variant; a missing variant does not compile. */
type OfEach<Message extends { type: string }> = { [T in Message['type']]: Extract<Message, { type: T }>[] }

const toDispatcher: OfEach<ToDispatcher> = {
  start: [
    {
      type: 'start',
      settings: {
        ...THREAD,
        runnerUrls: ['http://r'],
        publicUrl: 'http://a',
        lakeRoot: 's3://sluice/',
        sidecarToken: 'a secret',
        sidecarTokenUrls: ['http://r'],
        includesInputs: true,
        namespaceLimit: 4,
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
const MAINTENANCE = {
  runnerUrls: ['http://127.0.0.1:1'],
  publicUrl: 'http://127.0.0.1:2',
  lakeRoot: 's3://sluice/',
  sidecarToken: 'secret',
  sidecarTokenUrls: ['http://127.0.0.1:1'],
  tableBytes: 1,
  tickBytes: 2,
}
const toReaper: OfEach<ToReaper> = {
  start: [
    {
      type: 'start',
      settings: {
        ...THREAD,
        isRequested: true,
        branchMaxIdleDays: null,
        task: { kind: 'maintenance', means: MAINTENANCE },
      },
    },
  ],
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
  attemptCost: [
    {
      type: 'attemptCost',
      cost: { cpuSeconds: 0.12, bytesRead: 3, bytesWritten: 4, peakMemoryBytes: 5 },
    },
  ],
  runsRequested: [{ type: 'runsRequested', count: 3 }],
  ticked: [{ type: 'ticked', runsRequested: 0 }],
  led: [{ type: 'led', isLeading: true }],
  reaped: [{ type: 'reaped', failures: ['logs'] }],
  maintained: [{ type: 'maintained', outcome: 'replaced', bytes: 1 }],
  maintenanceDone: [{ type: 'maintenanceDone' }],
  dryRunDone: [
    {
      type: 'dryRunDone',
      result: {
        would_remove: [{ duty: 'runs', kind: 'runs', total: 1, size_bytes: 0, items: ['a'] }],
        incomplete: ['logs'],
      },
    },
  ],
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

/** Yields the message with one field missing or of a wrong type, for every field at every depth. */
function* corrupted(message: object): Generator<object> {
  for (const [key, value] of Object.entries(message)) {
    const { [key]: _, ...rest } = message as Record<string, unknown>
    yield rest
    yield { ...message, [key]: { not: 'this' } }
    if (typeof value === 'object' && value !== null && Object.getPrototypeOf(value) === Object.prototype)
      for (const inner of corrupted(value)) yield { ...message, [key]: inner }
  }
}

for (const [name, { schema, messages }] of Object.entries(CHANNELS))
  describe(name, () => {
    test.each(messages)('accepts %j unchanged', (message) => {
      expect(parseMessage(schema, structuredClone(message))).toEqual(message)
    })

    test('refuses a message with a missing or wrong field', () => {
      for (const message of messages)
        for (const wrong of corrupted(message))
          expect(() => parseMessage(schema, wrong)).toThrow('invalid message')
    })

    test('refuses values that are not messages', () => {
      for (const nothing of [undefined, null, 0, 'stop', [], {}, [STOP], { type: null }, { type: 'unknown' }])
        expect(() => parseMessage(schema, nothing)).toThrow('invalid message')
    })

    test('refuses messages of other channels', () => {
      const own = new Set(messages.map((message) => JSON.stringify(message)))
      const foreign = Object.values(CHANNELS)
        .flatMap((channel) => channel.messages)
        // The start message of another thread may contain all settings that this one needs.
        .filter((message) => !('settings' in message) && !own.has(JSON.stringify(message)))
      for (const message of foreign) expect(() => parseMessage(schema, message)).toThrow('invalid message')
    })
  })

test('counts must be whole numbers of at least zero', () => {
  for (const count of [-1, 0.5, Number.NaN, '1'])
    expect(() => parseMessage(FromWorker, { type: 'runsRequested', count })).toThrow('invalid message')
})

test('an error shows the message without its settings', () => {
  const wrong = { type: 'start', settings: { ...THREAD, logFormat: 'xml' } }
  expect(() => parseMessage(ToScheduler, wrong)).toThrow('{"type":"start","settings":"..."}')
  expect(() => parseMessage(ToScheduler, { type: 'nudge', about: 'lunch' })).toThrow('lunch')
})

test('an error does not show the bytes of a file', () => {
  const wrong = { type: 'objectCall', call: { op: 'put', bytes: new Uint8Array(9) } }
  expect(() => parseMessage(FromWorker, wrong)).toThrow('{"op":"put","bytes":"..."}')
})

test('an unhandled variant throws if it arrives despite its type', () => {
  expect(() => assertNever({ type: 'new' } as never)).toThrow('unhandled message {"type":"new"}')
})
