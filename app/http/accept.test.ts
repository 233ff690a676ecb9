import { expect, test } from 'bun:test'
import { prefers } from './accept.ts'

const events = (accept: string | null | undefined) => prefers(accept, 'text/event-stream', 'application/json')

test.each([
  'text/event-stream',
  'Text/Event-Stream; charset=utf-8',
  'application/json;q=0.5, text/event-stream',
  'text/event-stream;q=0.2, application/json;q=0.1',
  'text/event-stream, application/json',
  'text/event-stream, */*',
  'text/event-stream;q=0.1',
  'text/*',
  'text/event-stream, */*;q=0.8',
  '*/*;q=0, text/event-stream',
])('%s prefers events', (accept) => expect(events(accept)).toBe(true))

test.each([
  null,
  undefined,
  '',
  '*/*',
  'application/json',
  'text/event-stream;q=0',
  'text/event-stream;q=0, application/json',
  'text/event-stream;q=0.0, */*',
  'text/event-stream; q=0.5, application/json',
  'text/event-stream;q=0.5, */*',
  'application/json, text/event-stream;q=0.999',
  'text/event-stream;charset=utf-8;q=0, */*',
  'text/event-stream;q=2',
  'text/event-stream;q=x',
  'text/*;q=0.9, application/*',
  'text/event-streams',
  'text/html',
  ',;,=,',
])('%p gets JSON', (accept) => expect(events(accept)).toBe(false))

test('browsers prefer a page, other clients prefer JSON', () => {
  const page = (accept: string | null) => prefers(accept, 'text/html', 'application/json')
  expect(page('text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8')).toBe(true)
  for (const accept of [null, '*/*', 'application/json', 'application/json, text/html;q=0.9'])
    expect([accept, page(accept)]).toEqual([accept, false])
})

test('reads a header of any length in less than a second', () => {
  const began = performance.now()
  expect(events(`${'a/b;q=0.1,'.repeat(100_000)}text/event-stream`)).toBe(false)
  expect(performance.now() - began).toBeLessThan(1_000)
})
