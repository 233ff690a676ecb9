import { Type as t } from '@sinclair/typebox'
import { documentedAs } from '../core/documented.ts'
import { limits } from '../core/limits.ts'
import { Instant, Layer, literals, nullable, PipelineName, Uuid } from '../core/names.ts'
import { PageQuery } from '../core/pagination.ts'
import { Column } from '../query/schema.ts'
import { RunStatus } from '../runs/schema.ts'
import { LandingFile } from './schema.ts'

const FileId = t.Optional({ ...Uuid, description: 'Only this file of the zone' })

export const ReadsQuery = t.Object({ file_id: FileId, ...PageQuery.properties })

const Read = t.Object(
  {
    file_id: Uuid,
    filename: nullable(LandingFile.properties.filename, { description: 'Null if the file was deleted' }),
    size_bytes: nullable(t.Integer(), { description: 'Null if the file was deleted' }),
    file_status: literals(['active', 'quarantined', 'archived', 'deleted'], {
      title: 'ReadFileStatus',
      description: 'State of the file now: later runs read only active files',
    }),
    archived_by_run: nullable(Uuid, {
      description: 'The run that archived the file; null if that run is gone or not visible to the caller',
    }),
    archived_at: nullable(Instant),
    run_id: Uuid,
    namespace: t.String(),
    layer: documentedAs(t.String(), Layer),
    pipeline: documentedAs(t.String(), PipelineName),
    status: RunStatus,
    read_at: t.String({ format: 'date-time', description: 'Start of the attempt that read the file' }),
  },
  { title: 'LandingFileRead' },
)
export type Read = typeof Read.static
export const ReadList = t.Object(
  {
    reads: t.Array(Read),
    total: t.Integer({ description: `Number of reads; the count stops at ${limits.listCap}` }),
  },
  { title: 'LandingFileReadList' },
)

export const ZoneSchemaQuery = t.Object({ file_id: FileId })

export const ZoneSchema = t.Object(
  {
    columns: t.Array(Column, { description: 'Detected columns; empty without files' }),
    /** Rows are not validated, because the engine has produced them. */
    rows: documentedAs(
      t.Array(t.Unknown()),
      t.Array(t.Array(t.Unknown()), {
        description: 'The first rows: one array of values per row, in the order of `columns`',
        examples: [[['BOS', 12]]],
      }),
    ),
    source: literals(['files', 'samples', 'none'], {
      title: 'LandingSchemaSource',
      description: 'Previews read the samples of a zone without active files',
    }),
    files: t.Array(
      t.Object(
        {
          id: nullable(Uuid, { description: 'Null for a sample' }),
          filename: t.String(),
          size_bytes: t.Integer(),
        },
        { title: 'DetectedFile' },
      ),
      { description: 'The files that were read, newest first' },
    ),
    total_files: t.Integer({ description: 'Number of active files or samples' }),
    is_partial: t.Boolean({
      description:
        'True if other files were left out: they may have more columns, and values that need other types',
    }),
    function: nullable(
      literals(['read_csv_auto', 'read_json_auto', 'read_parquet'], { title: 'LandingFunction' }),
      { description: 'DuckDB function that read the files; null without files' },
    ),
    detected_schema: t.String({
      description: 'The detected columns in the form of `expected_schema`',
      examples: ['code:VARCHAR,delay:BIGINT'],
    }),
    expected: nullable(t.Array(Column), { description: 'Columns of `expected_schema`; null without one' }),
    differences: t.Array(
      t.Object(
        {
          column: t.String(),
          kind: literals(['missing', 'unexpected', 'other_type'], { title: 'SchemaDifferenceKind' }),
          expected_type: nullable(t.String()),
          detected_type: nullable(t.String()),
        },
        { title: 'SchemaDifference' },
      ),
      { description: 'Empty without an expected schema or without files' },
    ),
  },
  { title: 'LandingZoneSchema' },
)
export type ZoneSchema = typeof ZoneSchema.static
