import { expect, test } from 'bun:test'
import { errorOf } from '../api/errors.ts'
import { designOf } from './loaded.tsx'

const answered = (status: number, headers?: Record<string, string>) =>
  designOf(errorOf(status, { error: { code: 'X', message: 'the reason' } }, new Headers(headers)))

test('an answer without data shows a title and the reason of the service', () => {
  for (const [status, title] of [
    [400, 'The request was refused'],
    [403, 'Not allowed'],
    [404, 'Not found'],
    [429, 'Too many requests'],
    [500, 'The service failed'],
    [503, 'Unavailable at the moment'],
  ] as const)
    expect(answered(status)).toMatchObject({ title, text: 'the reason' })
})

test('a limit of requests says when it ends', () => {
  expect(answered(429, { 'retry-after': '7' }).text).toBe('The service accepts more requests in 7 s.')
})

test('a missing answer names the connection, and a fault of the page itself', () => {
  expect(answered(0).title).toBe('No connection to the service')
  expect(designOf(new Error('no such column'))).toMatchObject({
    title: 'This part of the page failed',
    text: 'no such column',
  })
})
