import { makeLakeReader } from '../catalog/lake-reader.ts'
import { makeMetadataFiles } from '../catalog/metadata-files.ts'
import { makeRestores } from '../catalog/restores.ts'
import type { TestCatalog } from '../catalog/test-catalog.ts'
import { systemClock } from '../core/clock.ts'
import { newId } from '../core/ids.ts'
import type { HistoryDeps } from './service.ts'

/** The parts of a history service over a test catalog. */
export function testHistory({ db, sql, objects }: TestCatalog): HistoryDeps {
  const files = makeMetadataFiles({ objects, newId })
  const reader = makeLakeReader(objects)
  return {
    sql,
    lists: sql,
    restores: makeRestores({ db, objects, files, reader, clock: systemClock, newId }),
  }
}
