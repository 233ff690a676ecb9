import { expect, test } from 'bun:test'
import { isAnswerOf } from './engine-messages.ts'
import { limits } from './limits.ts'

const isBelieved = (answer: unknown) => isAnswerOf('run', answer)

test('an answer with more rows than the limit is rejected', () => {
  const answer = { arrow: new Uint8Array(), truncated: false }
  expect(isBelieved({ ...answer, rows: limits.rows })).toBe(true)
  expect(isBelieved({ ...answer, rows: limits.rows + 1 })).toBe(false)
})

test('an answer must be a byte array within the size limit', () => {
  const answer = { arrow: new Uint8Array(limits.resultBytes), rows: 1, truncated: false }
  expect(isBelieved(answer)).toBe(true)
  expect(isBelieved({ ...answer, arrow: new Uint8Array(limits.resultBytes + 1) })).toBe(false)
  expect(isBelieved({ ...answer, arrow: null })).toBe(false)
})
