import { expect, test } from 'bun:test'
import { contentChange } from './content-change.ts'
import { metadataFrom } from './metadata.ts'

const snapshot = (id: bigint, parent: bigint | null, summary: Record<string, string>) => ({
  'snapshot-id': id,
  ...(parent !== null && { 'parent-snapshot-id': parent }),
  summary,
})
const table = (current: bigint | null, ...snapshots: object[]) =>
  metadataFrom({
    'format-version': 2,
    schemas: [],
    'partition-specs': [],
    'sort-orders': [],
    snapshots,
    ...(current !== null && { 'current-snapshot-id': current }),
  })

const first = snapshot(1n, null, { operation: 'append', 'added-records': '5', 'total-records': '5' })
const compacted = snapshot(2n, 1n, { operation: 'replace', 'added-records': '5', 'deleted-records': '5' })
const second = snapshot(3n, 2n, { operation: 'append', 'added-records': '2', 'total-records': '7' })

test('a replace snapshot before an append does not count', () => {
  expect(contentChange(table(1n, first), table(3n, first, compacted, second))).toEqual({
    operation: 'append',
    rowsAdded: 2,
    rowsRemoved: 0,
  })
})

test('a change counts written rows instead of copied rows when the writer reports them', () => {
  const merged = snapshot(4n, 1n, {
    operation: 'overwrite',
    'added-records': '6',
    'deleted-records': '5',
    'total-records': '6',
    'sluice.rows-written': '3',
  })
  expect(contentChange(table(1n, first), table(4n, first, merged))).toEqual({
    operation: 'overwrite',
    rowsAdded: 3,
    rowsRemoved: 2,
  })
})

test('a new table and a change without a snapshot add no row', () => {
  const nothing = { rowsAdded: 0, rowsRemoved: 0 }
  expect(contentChange(null, table(null))).toEqual({ operation: 'create', ...nothing })
  expect(contentChange(table(1n, first), table(1n, first))).toEqual({ operation: 'alter', ...nothing })
})

test('snapshots whose ancestors were removed count', () => {
  expect(contentChange(table(1n, first), table(3n, second))).toMatchObject({ rowsAdded: 2 })
})
