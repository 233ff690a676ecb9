import { systemClock } from '../core/clock.ts'
import { newId } from '../core/ids.ts'
import type { TestCatalog } from '../iceberg/test-catalog.ts'
import { makeLakeReader } from '../versions/lake-reader.ts'
import { makeMetadataFiles } from '../versions/metadata-files.ts'
import { makeRestores } from '../versions/restores.ts'
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
