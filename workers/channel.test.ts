import { expect, test } from 'bun:test'
import { FromWorker, parseMessage, ToDispatcher } from './channel.ts'

test('a message comes through as it is', () => {
  const nudge = { type: 'nudge', about: 'runRequested' } as const
  expect(parseMessage(ToDispatcher, nudge)).toEqual(nudge)
  expect(parseMessage(FromWorker, { type: 'runsEnded', status: 'success', count: 3 })).toMatchObject({
    count: 3,
  })
})

for (const wrong of [
  undefined,
  null,
  'stop',
  {},
  { type: 'unknown' },
  { type: 'nudge', about: 'lunch' },
  { type: 'start', settings: { databaseUrl: 7 } },
])
  test(`${JSON.stringify(wrong)} is no message, and the error shows it`, () => {
    expect(() => parseMessage(ToDispatcher, wrong)).toThrow('no such message')
  })
