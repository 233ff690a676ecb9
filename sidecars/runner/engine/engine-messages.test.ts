import { expect, test } from 'bun:test'
import { limits } from '../core/limits.ts'
import { isAnswerOf } from './engine-messages.ts'

test('a preview answer beyond the byte limit is rejected', () => {
  const rest = { columns: [], rowCount: 1, executeMs: 1, profile: '' }
  const isBelieved = (bytes: number) => isAnswerOf('preview', { ...rest, arrow: new Uint8Array(bytes) })
  expect(isBelieved(limits.previewBytes)).toBe(true)
  expect(isBelieved(limits.previewBytes + 1)).toBe(false)
})
