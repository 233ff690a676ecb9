import { expect, test } from 'bun:test'
import type { TableMetadata } from '../../lake/iceberg/format/metadata.ts'
import { applyUpdates } from '../../lake/iceberg/format/updates.ts'
import { parseCommitRequest } from '../../lake/iceberg/format/wire.ts'
import { newTable } from '../../lake/iceberg/write/new-table.ts'
import type { ObjectStore } from '../objects/port.ts'
import { MetadataFile, makeMetadataFiles } from './metadata-files.ts'

test('metadata of more than 16 MB is refused before it is stored', async () => {
  const objects = { put: () => expect.unreachable() } as unknown as ObjectStore
  const files = makeMetadataFiles({ objects, newId: () => 'new' as never })
  const write = files.write('s3://lake/t', undefined, new MetadataFile('a'.repeat(17 * 1_048_576)))
  await expect(write).rejects.toThrow('s3://lake/t would have 17825792 characters of metadata')
})

const schema = { type: 'struct', fields: [{ id: 1, name: 'a', type: 'long', required: false }] } as const
const created = newTable({
  uuid: '0197d0c2-0000-7000-8000-000000000001',
  location: 's3://lake/_lake/default/gold/t-0197d0c2',
  schema,
  properties: { owner: 'team' },
  at: 1_000,
})

/** The snapshot id is above 2^53, so that a double cannot hold it. */
const UPDATES = `[
  {"action": "upgrade-format-version", "format-version": 3},
  {"action": "set-properties", "updates": {"owner": "other", "comment": "text"}},
  {"action": "add-schema", "schema": {"type": "struct", "fields": [
    {"id": 1, "name": "a", "type": "long", "required": false}, {"id": 2, "name": "b", "type": "string", "required": false}]}},
  {"action": "set-current-schema", "schema-id": -1},
  {"action": "add-snapshot", "snapshot": {"snapshot-id": 9007199254740995, "sequence-number": 1, "timestamp-ms": 2000,
    "manifest-list": "s3://lake/_lake/default/gold/t-0197d0c2/metadata/snap.avro", "schema-id": 1,
    "first-row-id": 0, "added-rows": 3, "summary": {"operation": "append", "total-records": "3"}}},
  {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": 9007199254740995}
]`

function committed(base: TableMetadata): TableMetadata {
  const { updates } = parseCommitRequest(`{"requirements": [], "updates": ${UPDATES}}`)
  return applyUpdates(base, updates, { at: 3_000, previousFile: 's3://lake/v0.metadata.json' })
}

test.each([
  ['created', created],
  ['committed', committed(created)],
])('the metadata of a %s table equals the text of its file', (_, table) => {
  const file = MetadataFile.of(table)
  expect(file.table).toBe(table)
  expect(new MetadataFile(file.text).table).toEqual(table)
})
