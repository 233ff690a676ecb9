import { expect, test } from 'bun:test'
import { isAnswerOf } from './engine-messages.ts'
import { limits } from './limits.ts'

const isBelieved = (answer: unknown) => isAnswerOf('run', answer)

test('no answer has more rows than a request can ask for', () => {
  const answer = { arrow: new Uint8Array(), truncated: false }
  expect(isBelieved({ ...answer, rows: limits.rows })).toBe(true)
  expect(isBelieved({ ...answer, rows: limits.rows + 1 })).toBe(false)
})

test('an answer is a stream no longer than its limit', () => {
  const answer = { arrow: new Uint8Array(limits.resultBytes), rows: 1, truncated: false }
  expect(isBelieved(answer)).toBe(true)
  expect(isBelieved({ ...answer, arrow: new Uint8Array(limits.resultBytes + 1) })).toBe(false)
  expect(isBelieved({ ...answer, arrow: null })).toBe(false)
})
