import { join } from 'node:path'
import { type TableName, tableKey } from '../../../ground/names.ts'
import { keyIn } from '../../../lake/iceberg/format/location.ts'
import {
  currentSchema,
  currentSnapshot,
  parseMetadata,
  type TableMetadata,
} from '../../../lake/iceberg/format/metadata.ts'
import { rowCountOf } from '../../../lake/iceberg/format/row-count.ts'
import type { Schema } from '../../../lake/iceberg/format/types.ts'
import { readByName } from '../../../lake/iceberg/read/by-name.ts'
import {
  dataFilesOf,
  type LiveFile,
  type ManifestReader,
  makeManifestReader,
} from '../../../lake/iceberg/read/scan.ts'
import {
  type LocalFile,
  localFiles,
  pathsOf,
  readTable,
  storedFilesOf,
} from '../../../lake/iceberg/read/table-sql.ts'
import type { LakeAccess } from '../../../proto/gen/sluice/runner/v1/runner_pb.ts'
import { type Gateway, gatewayLake, type LakeFiles, sharedLake } from '../../objects/lake-access.ts'
import { readingTable } from '../../objects/missing-file.ts'
import type { ObjectCache } from '../../objects/object-cache.ts'
import { openStored } from '../../objects/stored-files.ts'
import { authorityOf } from '../../rpc/api-addresses.ts'
import type { EngineLease } from '../engine/engine-lease.ts'
import type { TableView } from '../engine/engine-messages.ts'
import { schemaOf } from '../engine/sql-names.ts'
import { type BranchCatalog, openBranchCatalog } from './branch-catalog.ts'
import type { LandingDirectory } from './landing.ts'

// The lake as one piece of work sees it through its token: the tables of its branch, with local files.

/** A table or view that SQL can read: its columns, and local files that stay until the session is closed. */
export interface TableInput {
  name: TableName
  /** Only a view has SQL, which names the inputs that it reads by their `tableExpression`. A view has no files. */
  view?: { sql: string; reads: readonly TableInput[] }
  schema: Schema
  files: LocalFile[]
  /** Locations in the lake of the data files in `files`. */
  locations: string[]
  rowCount: number
  /** The files stay in the lake, because another engine reads them. */
  isRemote?: true
}

export interface LakeSession {
  catalog: BranchCatalog
  files: LakeFiles
  gateway: Gateway
  /** The start of new locations. */
  root: string
  reader: ManifestReader
  /** Reads and parses a metadata file. */
  metadataAt(location: string): Promise<TableMetadata>
  /** Makes the data files of the table's current state local. */
  open(name: TableName, metadata: TableMetadata): Promise<TableInput>
  /** Describes the table for an engine that reads its files itself. */
  describe(name: TableName, metadata: TableMetadata): Promise<TableInput>
  /** Makes data files and their delete files local. */
  openFiles(files: readonly LiveFile[]): Promise<LocalFile[]>
  close(): void
}

interface LakeOptions {
  /** The directory of the API's disk store, if this machine shares it; otherwise null. */
  lakeDir: string | null
  cache: ObjectCache
}

/** Makes the function that opens sessions. Sessions share a cache of manifests when the lake is on a shared disk. */
export function makeLake({ lakeDir, cache }: LakeOptions) {
  const shared = lakeDir === null ? null : sharedLake(lakeDir)
  const readerOf = (files: LakeFiles) => makeManifestReader((location) => files.read(keyIn(location)))
  const sharedReader = shared && readerOf(shared)

  return function openLake(lake: LakeAccess, signal: AbortSignal): LakeSession {
    const gateway: Gateway = {
      url: lake.objectsUrl,
      token: lake.token,
      authority: authorityOf(lake),
      cache,
      signal,
    }
    const files = shared ?? gatewayLake(gateway)
    const reader = sharedReader ?? readerOf(files)
    const releases: (() => void)[] = []
    const openFiles = async (dataFiles: readonly LiveFile[]) => {
      const opened = await Promise.all(
        storedFilesOf(dataFiles).map(async (stored) => {
          const { path, release } = await openStored({ files, cache, authority: gateway.authority }, stored)
          releases.push(release)
          return [stored.id, path] as const
        }),
      )
      return localFiles(dataFiles, new Map(opened))
    }
    return {
      catalog: openBranchCatalog(lake, signal),
      files,
      gateway,
      root: lake.lakeRoot,
      reader,
      async metadataAt(location) {
        return parseMetadata(new TextDecoder().decode(await files.read(keyIn(location))))
      },
      open: (name, metadata) =>
        readingTable(name, async () => {
          const snapshot = currentSnapshot(metadata)
          const dataFiles = snapshot ? await dataFilesOf(metadata, snapshot['snapshot-id'], reader) : []
          return {
            name,
            schema: currentSchema(metadata),
            files: await openFiles(dataFiles),
            locations: dataFiles.map(({ location }) => location),
            rowCount: snapshot ? rowCountOf(snapshot.summary) : 0,
          }
        }),
      async describe(name, metadata) {
        const snapshot = currentSnapshot(metadata)
        const rowCount = snapshot ? rowCountOf(snapshot.summary) : 0
        return { name, schema: currentSchema(metadata), files: [], locations: [], rowCount, isRemote: true }
      },
      openFiles,
      close() {
        for (const release of releases.splice(0)) release()
      },
    }
  }
}

interface InstanceOptions {
  /** More files that the instance may read. */
  paths?: readonly string[]
  profilePath?: string
  /** The landing zones that the instance may read. */
  landing?: LandingDirectory
}

/**
 * Opens an instance that may read these tables and files, and the files in `directory`. It also spills to `directory`. Returns
 * its number. Throws EngineFault and EngineEnded.
 */
export async function openInstance(
  engine: EngineLease,
  tables: readonly TableInput[],
  directory: string,
  signal: AbortSignal,
  { paths = [], profilePath, landing }: InstanceOptions = {},
): Promise<number> {
  const number = await engine.instance()
  try {
    await engine.call(
      {
        kind: 'open',
        number,
        directory: landing?.from ?? undefined,
        tempDirectory: join(directory, `spill-${number}`),
        allowedDirectories: [directory, ...(landing ? [landing.directory] : [])],
        allowedPaths: [...paths, ...tables.flatMap((table) => pathsOf(table.files))],
        profilePath,
        countsProgress: true,
        share: engine.share(),
        tables: tables.map(viewOf),
      },
      signal,
    )
    return number
  } catch (error) {
    // No caller knows the number of this instance, so it is closed here.
    await engine.close(number).catch(() => {})
    throw error
  }
}

/** An instance reads most tables once. Fewer rows are read faster than their files are checked. */
const ROWS_BY_NAME = 10_000

/** The view that an instance shows for a table, or for a stored view. */
export const viewOf = ({ name, schema, files, view }: TableInput): TableView => ({
  schema: schemaOf(name),
  name: name.name,
  ...(view
    ? { from: `(\n${view.sql}\n)`, storedView: tableKey(name) }
    : { from: readTable(schema, files), byName: readByName(schema, files, ROWS_BY_NAME) }),
})
