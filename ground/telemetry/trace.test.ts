import { expect, test } from 'bun:test'
import { begunTrace, inTrace, NO_TRACE, traceFields, traceHeaders, traceOf } from './trace.ts'

const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736'
const PARENT = '00f067aa0ba902b7'
const parsed = (traceparent: string, tracestate?: string) => {
  const { traceparent: kept, tracestate: state } = traceOf(
    new Headers({ traceparent, ...(tracestate !== undefined && { tracestate }) }),
  )
  return { kept, state }
}

test('a traceparent is forwarded unchanged, together with its tracestate', () => {
  const traceparent = `00-${TRACE}-${PARENT}-01`
  expect(parsed(traceparent, 'a=1,b=2')).toEqual({ kept: traceparent, state: 'a=1,b=2' })
})

test('an invalid traceparent is ignored together with its tracestate', () => {
  for (const none of [
    '',
    'nonsense',
    `00-${TRACE}-${PARENT}`,
    `00-${TRACE}-${PARENT}-01-more`,
    `00-${TRACE.toUpperCase()}-${PARENT}-01`,
    `00-${'0'.repeat(32)}-${PARENT}-01`,
    `00-${TRACE}-${'0'.repeat(16)}-01`,
    `ff-${TRACE}-${PARENT}-01`,
    `01-${TRACE}-${PARENT}-01more`,
    `00-${TRACE}-${PARENT}-01, 00-${TRACE}-${PARENT}-01`,
  ])
    expect([none, parsed(none, 'a=1')]).toEqual([none, { kept: null, state: null }])
})

test('a traceparent of a later version is forwarded in version 00', () => {
  expect(parsed(`01-${TRACE}-${PARENT}-ff-more`).kept).toBe(`00-${TRACE}-${PARENT}-01`)
})

test('a tracestate over the length limit is dropped', () => {
  expect(parsed(`00-${TRACE}-${PARENT}-00`, 'a'.repeat(513)).state).toBeNull()
})

test('work started inside a request has its trace, work outside does not', async () => {
  const traceparent = `00-${TRACE}-${PARENT}-01`
  const trace = { requestId: 'r-1', traceparent, tracestate: null }
  const inside = inTrace(
    () => trace,
    async () => {
      await Promise.resolve()
      return [traceHeaders(), traceFields()]
    },
  )
  expect(traceHeaders()).toEqual({})
  expect(await inside).toEqual([
    { 'x-request-id': 'r-1', traceparent },
    { request_id: 'r-1', trace_id: TRACE, span_id: PARENT },
  ])
  expect(traceFields()).toEqual({})
})

test('work without a trace begins a valid one derived from its id', () => {
  const trace = { traceparent: `00-${TRACE}-${PARENT}-01`, tracestate: 'a=1' }
  const id = '0199c0de-0000-7abc-8def-0123456789ab'
  expect(begunTrace(id, trace)).toEqual(trace)
  const begun = begunTrace(id, NO_TRACE)
  expect(begun).toEqual({
    traceparent: '00-0199c0de00007abc8def0123456789ab-8def0123456789ab-00',
    tracestate: null,
  })
  expect(parsed(begun.traceparent ?? '')).toEqual({ kept: begun.traceparent, state: null })
})
