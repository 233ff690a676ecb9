import { keyIn } from '../../lake/iceberg/format/location.ts'
import { currentSchema, currentSnapshot, parseMetadata } from '../../lake/iceberg/format/metadata.ts'
import type { Schema } from '../../lake/iceberg/format/types.ts'
import {
  type Comparison,
  comparedColumns,
  countsSql,
  differingFiles,
  fieldsOfState,
  rowsSql,
} from '../../lake/iceberg/read/compare.ts'
import { dataFilesOf } from '../../lake/iceberg/read/scan.ts'
import { localFiles, type ReadableFile, readTable } from '../../lake/iceberg/read/table-sql.ts'
import type { LakeView } from '../../proto/gen/sluice/query/v1/query_pb.ts'
import { gatewayLake, type LakeFiles, sharedLake } from '../objects/lake-access.ts'
import type { Lease } from '../objects/object-cache.ts'
import { authorityOf } from '../rpc/api-addresses.ts'
import type { AnswerOf } from './engine-messages.ts'
import type { Engines } from './engines.ts'
import { limits } from './limits.ts'
import { openAll, type RelationOptions, readerOf } from './relations.ts'

// Compares two states of one table. Only files that one of the states lacks are read, unless a column was removed.

interface StateComparison {
  lake: LakeView
  /** Locations of the metadata of both states. Null: the table does not exist in that state. */
  before: string | null
  after: string | null
  /** Columns that identify a row; empty: no row is paired. */
  key: readonly string[]
  /** The maximum number of rows in each list; 0: only the numbers. */
  rowsLimit: number
  jsonBytesMax: number
}

interface ComparedRows {
  counts: AnswerOf<'run'> | null
  added: AnswerOf<'run'> | null
  removed: AnswerOf<'run'> | null
  changed: AnswerOf<'run'> | null
}

export type CompareStates = (comparison: StateComparison, signal: AbortSignal) => Promise<ComparedRows>

interface State {
  schema: Schema | null
  files: readonly ReadableFile[]
  /** The uuid of the table; null: the state does not exist. */
  uuid: string | null
}

const ABSENT: State = { schema: null, files: [], uuid: null }

const isSameTable = (before: State, after: State): boolean =>
  before.uuid === null || after.uuid === null || before.uuid === after.uuid

export function makeComparisons({
  lakeDir,
  cache,
  engines,
}: RelationOptions & { engines: Engines }): CompareStates {
  const shared = lakeDir === null ? null : sharedLake(lakeDir)

  return async function compareStates({ lake, before, after, key, rowsLimit, jsonBytesMax }, signal) {
    const { objectsUrl: url, token } = lake
    const authority = authorityOf(lake)
    const files = shared ?? gatewayLake({ url, token, authority, cache, signal })
    const [old, now] = await Promise.all([stateOf(before, files), stateOf(after, files)])
    const columns = comparedColumns(old.schema, now.schema, isSameTable(old, now))
    const leases: Lease[] = []
    const engine = await engines.acquire(signal)
    const run = (sql: string, rows: number) =>
      engine.run(
        {
          statement: { sql, kind: 'select', setsSeed: false },
          catalog: null,
          define: [],
          drop: [],
          places: null,
          rowsLimit: rows,
          bytesLimit: limits.resultBytes,
          jsonBytesMax,
        },
        signal,
      )
    try {
      const read = async (state: 'before' | 'after', wanted: readonly ReadableFile[]) => {
        const opened = await openAll(wanted, { files, cache, authority })
        leases.push(...opened.values())
        const paths = new Map(Array.from(opened, ([id, { path }]) => [id, path]))
        return readTable(fieldsOfState(columns, state), localFiles(wanted, paths))
      }
      const [oldFiles, newFiles] = differingFiles(old.files, now.files, columns)
      const comparison: Comparison = {
        columns,
        before: await read('before', oldFiles),
        after: await read('after', newFiles),
      }
      signal.throwIfAborted()
      if (rowsLimit === 0)
        return { counts: await run(countsSql(comparison), 1), added: null, removed: null, changed: null }
      // One more copy shows that a list is truncated.
      const queries = rowsSql(comparison, key, rowsLimit + 1)
      return {
        counts: null,
        added: await run(queries.added, rowsLimit),
        removed: await run(queries.removed, rowsLimit),
        changed: await run(queries.changed, rowsLimit),
      }
    } finally {
      for (const { release } of leases) release()
      engine.release()
    }
  }
}

async function stateOf(location: string | null, files: LakeFiles): Promise<State> {
  if (location === null) return ABSENT
  const text = await files.read(keyIn(location))
  const metadata = parseMetadata(new TextDecoder().decode(text))
  const snapshot = currentSnapshot(metadata)
  return {
    schema: currentSchema(metadata),
    uuid: metadata['table-uuid'],
    files: snapshot ? await dataFilesOf(metadata, snapshot['snapshot-id'], readerOf(files)) : [],
  }
}
