import { mkdtemp } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openObjectStore } from './open.ts'
import { objectStoreSuite } from './suite.ts'

const root = await mkdtemp(join(tmpdir(), 'sluice-objects-'))
objectStoreSuite('disk object store', () => openObjectStore({ kind: 'disk', root }), {
  keysMayBeFolders: true,
  histories: 60,
})
