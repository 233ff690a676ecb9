import { AuthorError } from '../../pipeline/author-error.ts'
import type { PipelineConfig } from '../../pipeline/config.ts'
import type { Marking } from '../format/layout.ts'
import type { TableMetadata } from '../format/metadata.ts'
import type { Column, Schema } from '../format/types.ts'
import type { UnboundSpec } from '../format/wire.ts'
import type { ManifestReader, TableFile } from '../read/scan.ts'
import type { Compacted } from './compaction.ts'
import type { NextSchema } from './evolution.ts'
import type { NewDataFile, NewDeleteFile } from './new-files.ts'
import type { WrittenDeletes } from './position-deletes.ts'
import type { OpenFiles, WriteEngine, WrittenFile } from './write-engine.ts'

export interface ResultWrite {
  readonly rules: WriteRules
  /** A relation of the engine, in the result's order. */
  readonly result: string
  readonly columns: readonly Column[]
  /** Null when the table does not exist yet. */
  readonly table: TableMetadata | null
  /** Makes the metadata of a table that does not exist yet. */
  readonly stage: (shape: {
    schema: Schema
    partitionSpec: UnboundSpec
    properties: Readonly<Record<string, string>>
  }) => TableMetadata
  /** The start time of new row versions, ISO 8601. */
  readonly at: string
  /** An absolute path to an empty directory. Both engines may write there. */
  readonly directory: string
  readonly reader: ManifestReader
  readonly engine: WriteEngine
  /** Opens another engine that can read these files of the table. */
  readonly open: OpenFiles
  /** The number of rows per new file in a table with `tableRows` rows. */
  readonly fileRows?: (tableRows: number) => number
  /** When rows of a table with `tableBytes` bytes are marked as deleted. */
  readonly marking?: (tableBytes: number) => Marking
}

export interface TableChange {
  readonly metadata: TableMetadata
  readonly schema: NextSchema
  readonly partitionSpec: UnboundSpec
  /** Properties that the table gets. */
  readonly properties: Readonly<Record<string, string>>
  /** Null when the table stays unchanged. */
  readonly operation: 'append' | 'overwrite' | 'rewrite' | null
  readonly files: readonly WrittenFile[]
  /** The table's files that `rewrite` replaces. */
  readonly replaced: readonly TableFile[]
  /** Positions of deleted rows in files that stay. */
  readonly deletes: readonly WrittenDeletes[]
  /** The change of the number of deleted rows in files of the table, without compaction. */
  readonly deletedRows: number
  /** New files with exactly the rows of the table's files that they replace. */
  readonly compacted: Compacted
  /** The number of inserted or changed rows. */
  readonly rowsWritten: number
  /** The number of rows that `scd2` ignores, because the open version of their key is newer. Default: 0. */
  readonly olderRows?: number
  /** The number of rows of the result that another row with the same key replaces. Default: 0. */
  readonly repeatedRows?: number
}

/** All new files of a change: first those with changed rows, and delete files at the end. */
export const addedFiles = ({ files, compacted, deletes }: TableChange): WrittenFile[] => [
  ...files,
  ...compacted.files,
  ...deletes,
]

/** Divides the stored files of a change, which are in the order of `addedFiles`. */
export function storedParts(
  { files, compacted, deletes }: TableChange,
  stored: readonly NewDataFile[],
): { files: NewDataFile[]; compacted: NewDataFile[]; deletes: NewDeleteFile[] } {
  const [first, second] = [files.length, files.length + compacted.files.length]
  return {
    files: stored.slice(0, first),
    compacted: stored.slice(first, second),
    deletes: stored.slice(second).flatMap((file, i) => {
      const specId = deletes[i]?.specId
      return specId === undefined ? [] : [{ ...file, specId, content: 'position-deletes' as const }]
    }),
  }
}

/** All files of the table that a change removes. */
export const removedFiles = ({ replaced, compacted }: TableChange): TableFile[] => [
  ...replaced,
  ...compacted.replaced,
]

/** The settings of a pipeline that control writing. */
export type WriteRules = Readonly<
  Pick<
    PipelineConfig,
    | 'mergeStrategy'
    | 'uniqueKey'
    | 'watermarkColumn'
    | 'partitionColumn'
    | 'partitionBy'
    | 'targetFileSize'
    | 'onSchemaChange'
    | 'scdValidFrom'
    | 'scdValidTo'
  >
>

/** The strategy cannot write the result. */
export class UnsupportedWrite extends AuthorError {
  override readonly name = 'UnsupportedWrite'
}
