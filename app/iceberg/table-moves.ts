/** New states of tables under other names: renamed tables and registered metadata files. Data files stay where they are. */
import { type TableName, tableKey } from '../../ground/names.ts'
import {
  BadLocation,
  keyIn,
  LOCATION_PROPERTIES,
  rootIn,
  tableLocation,
} from '../../lake/iceberg/format/location.ts'
import {
  formerDirectories,
  type TableMetadata,
  UnsupportedTable,
  withFormerDirectories,
} from '../../lake/iceberg/format/metadata.ts'
import { applyUpdates } from '../../lake/iceberg/format/updates.ts'
import type { TableUpdate } from '../../lake/iceberg/format/wire.ts'
import { LAKE_GRACE_MS } from '../../machines/retention.ts'
import { tableOfMetadataFile } from '../versions/lake-keys.ts'
import { MissingLakeFile } from '../versions/metadata-files.ts'
import { tableIn, tableOfUuid, type View } from '../versions/store/tables.ts'
import { badRequest, noSuchTable, notKept, tableExists } from './errors.ts'
import { makeTableStates, type NewState, type TableStateDeps } from './table-states.ts'

/** Credentials reach all directories of a table, so a table has only few. */
const FORMER_DIRECTORIES_MAX = 8

export function makeTableMoves(deps: TableStateDeps) {
  const { sql, files, lakeRoot, clock } = deps
  const { stored, dropped } = makeTableStates(deps)

  /** The metadata of a table under another name, which gets a directory for its new files. */
  function moved(table: TableName, metadata: TableMetadata, previousFile: string, updates: TableUpdate[]) {
    const location = tableLocation(lakeRoot, table, metadata['table-uuid'])
    const former = new Set([...formerDirectories(metadata), keyIn(metadata.location)])
    former.delete(keyIn(location))
    if (former.size > FORMER_DIRECTORIES_MAX)
      throw badRequest(
        `table ${tableKey(table)} has files of more than ${FORMER_DIRECTORIES_MAX} other names`,
      )
    const next = applyUpdates(
      metadata,
      [
        ...updates,
        { action: 'set-location', location },
        // Engines would write new files to the directory of the old name.
        { action: 'remove-properties', removals: [...LOCATION_PROPERTIES] },
      ],
      { at: Math.max(clock.now().getTime(), metadata['last-updated-ms']), previousFile },
    )
    return withFormerDirectories(next, [...former])
  }

  return {
    /** A table under a new name, and the end of the old one. */
    async renamed(view: View, from: TableName, to: TableName): Promise<NewState[]> {
      const end = await dropped(view, from)
      if ((await tableIn(sql, view, to)) !== null) throw tableExists(to)
      const current = await tableIn(sql, view, from)
      if (current === null) throw noSuchTable(tableKey(from))
      const { metadataLocation } = current
      const metadata = (await files.read(metadataLocation)).table
      const state = await stored(to, null, moved(to, metadata, metadataLocation, []))
      const message = `rename ${tableKey(from)} to ${tableKey(to)}`
      return [unchanged({ ...state, message }, { operation: 'rename', renamedFrom: from }), end]
    },

    /**
     * A table of a metadata file that the catalog wrote. Throws 400 for another file, for a state that is not kept, and while the
     * view has the table of the file. `mayRead` decides about the table whose directory has the file.
     */
    async registered(
      view: View,
      table: TableName,
      file: string,
      mayRead: (table: TableName) => Promise<boolean>,
    ): Promise<NewState> {
      if ((await tableIn(sql, view, table)) !== null) throw tableExists(table)
      const source = sourceOf(file)
      if (!(await mayRead(source))) throw notKept(file)
      const metadata = await metadataAt(file)
      const living = await tableOfUuid(sql, view, metadata['table-uuid'])
      if (living !== null) throw tableExists(living)
      // The reaper removes no young file. For older states, main must still have the state when the commit happens.
      const isYoung = oldestTimeIn(metadata) > clock.now().getTime() - LAKE_GRACE_MS / 2
      const isSameName = tableKey(source) === tableKey(table)
      const next =
        isYoung && isSameName ? metadata : moved(table, metadata, file, isYoung ? [] : onlyCurrent(metadata))
      const state = await stored(table, null, next, next === metadata ? file : undefined)
      const message = `register ${tableKey(table)}`
      return {
        ...unchanged(
          { ...state, message },
          { operation: 'register', ...(isSameName ? {} : { renamedFrom: source }) },
        ),
        ...(!isYoung && { keptState: { table: source, file } }),
      }
    },
  }

  function sourceOf(file: string): TableName {
    try {
      const source = rootIn(file) === lakeRoot ? tableOfMetadataFile(keyIn(file)) : null
      if (source !== null) return source
    } catch (error) {
      if (!(error instanceof BadLocation)) throw error
    }
    throw badRequest(
      `metadata-location: ${JSON.stringify(file)} is no metadata file that this catalog wrote below ${lakeRoot}`,
    )
  }

  async function metadataAt(file: string): Promise<TableMetadata> {
    try {
      return (await files.read(file)).table
    } catch (error) {
      if (error instanceof MissingLakeFile) throw notKept(file)
      if (error instanceof UnsupportedTable || error instanceof SyntaxError)
        throw badRequest(`metadata-location: ${JSON.stringify(file)} is no metadata file of a table`)
      throw error
    }
  }
}

/** A state whose change is its name only. */
function unchanged(
  state: NewState,
  { operation, renamedFrom }: { operation: string; renamedFrom?: TableName },
): NewState {
  const { change } = state
  if (change.state === null) return state
  return {
    ...state,
    change: {
      ...change,
      ...(renamedFrom && { renamedFrom }),
      state: { ...change.state, change: { operation, rowsAdded: 0, rowsRemoved: 0 } },
    },
  }
}

/** When the oldest file of the table may have been written. */
const oldestTimeIn = (metadata: TableMetadata): number =>
  Math.min(
    metadata['last-updated-ms'],
    ...metadata.snapshots.map((snapshot) => snapshot['timestamp-ms']),
    ...metadata['metadata-log'].map((entry) => entry['timestamp-ms']),
  )

/** The reaper keeps only the current snapshot of an older state of main. */
function onlyCurrent(metadata: TableMetadata): TableUpdate[] {
  const current = metadata['current-snapshot-id']
  const others = metadata.snapshots.map((each) => each['snapshot-id']).filter((id) => id !== current)
  return others.length === 0 ? [] : [{ action: 'remove-snapshots', 'snapshot-ids': others }]
}
