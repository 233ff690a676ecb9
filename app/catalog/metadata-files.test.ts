import { expect, test } from 'bun:test'
import type { ObjectStore } from '../objects/port.ts'
import { makeMetadataFiles } from './metadata-files.ts'

test('metadata of more than 16 MB is refused before it is stored', async () => {
  const objects = { put: () => expect.unreachable() } as unknown as ObjectStore
  const files = makeMetadataFiles({ objects, newId: () => 'new' as never })
  const write = files.write('s3://lake/t', undefined, 'a'.repeat(17 * 1_048_576))
  await expect(write).rejects.toThrow('s3://lake/t would have 17825792 characters of metadata')
})
