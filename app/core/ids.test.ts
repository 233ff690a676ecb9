import { expect, test } from 'bun:test'
import { isUuid, newId } from './ids.ts'

test('ids are version 7 UUIDs that sort in the order of creation', () => {
  const ids = Array.from({ length: 20_000 }, newId)
  expect(ids.toSorted()).toEqual(ids)
  expect(new Set(ids).size).toBe(ids.length)
  for (const id of ids.slice(0, 100)) expect(isUuid(id) && id[14] === '7').toBe(true)
})
