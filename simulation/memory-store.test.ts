import { systemClock } from '../app/core/clock.ts'
import { objectStoreSuite } from '../app/objects/suite.ts'
import { openMemoryStore } from './memory-store.ts'

objectStoreSuite('memory object store', async () => openMemoryStore(systemClock), {
  keysMayBeFolders: true,
  histories: 60,
})
