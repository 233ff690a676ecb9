import { Type as t } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import { documentedAs } from '../core/documented.ts'
import { invalid } from '../core/errors.ts'
import { VersionQuery } from '../core/lake-version.ts'
import { limits } from '../core/limits.ts'
import { Layer, literals, NamespaceName, nullable, PipelineName } from '../core/names.ts'
import { numberText, PageQuery, WholeListQuery } from '../core/pagination.ts'

/** Default number of rows of a preview. */
export const PREVIEW_ROWS = 50

/** Maximum length of the name of a described column. */
const COLUMN_NAME_CHARACTERS = 1_000

const OWNER_CHARACTERS = 255

const TableKind = literals(['table', 'view'], {
  title: 'TableKind',
  description: 'A view has no rows of its own',
})
const listed = {
  namespace: NamespaceName,
  layer: Layer,
  name: PipelineName,
  kind: TableKind,
  row_count: t.Integer(),
  size_bytes: t.Integer(),
  description: nullable(t.String()),
}
const ListedTable = t.Object(listed, { title: 'ListedTable' })
export const TableList = t.Object(
  { tables: t.Array(ListedTable), total: t.Integer() },
  { title: 'TableList' },
)

export const Table = t.Object(
  {
    ...listed,
    owner: nullable(t.String()),
    columns: t.Array(
      t.Object(
        {
          name: t.String(),
          type: t.String({ description: 'Type name of DuckDB', examples: ['DECIMAL(14,2)'] }),
          description: nullable(t.String()),
        },
        { title: 'TableColumn' },
      ),
    ),
  },
  { title: 'Table' },
)
export type Table = typeof Table.static

export const TableQuery = t.Composite([
  t.Object({
    namespace: t.Optional(NamespaceName),
    layer: t.Optional(Layer),
    search: t.Optional(t.String({ description: 'Part of `namespace.layer.name`', maxLength: 256 })),
    ...VersionQuery,
  }),
  WholeListQuery,
])
export type TableQuery = typeof TableQuery.static

export const TableVersionQuery = t.Object(VersionQuery)

export const PreviewQuery = t.Object({
  ...VersionQuery,
  limit: t.Optional(
    numberText({
      minimum: 0,
      maximum: limits.previewRowsMax,
      description: `Number of rows; default ${PREVIEW_ROWS}, at most ${limits.previewRowsMax}`,
      examples: [PREVIEW_ROWS],
    }),
  ),
})

export const TableFilesQuery = t.Composite([TableVersionQuery, PageQuery])
export type TableFilesQuery = typeof TableFilesQuery.static

const DataFile = t.Object(
  {
    path: t.String({
      description: 'Key in the object store',
      examples: ['_lake/default/gold/delays-5b1f6c2e/data/0198f0c2.parquet'],
    }),
    row_count: t.Integer({ description: 'Rows in the file, deleted rows included' }),
    deleted_rows: nullable(
      t.Integer({ description: 'Rows that readers skip; null: only the content of a delete file tells' }),
    ),
    size_bytes: t.Integer(),
    partition: t.Array(
      t.Object(
        {
          field: t.String({ examples: ['day'] }),
          value: nullable(t.String({ examples: ['2026-03-31'] })),
        },
        { title: 'PartitionValue' },
      ),
      { description: 'Empty for a file without partitions' },
    ),
  },
  { title: 'DataFile' },
)
export type DataFile = typeof DataFile.static

export const TableFiles = t.Object({ files: t.Array(DataFile), total: t.Integer() }, { title: 'TableFiles' })
export type TableFiles = typeof TableFiles.static

const SourceColumn = nullable(t.String({ description: 'Null: the column was removed' }))
const Transform = t.String({ examples: ['month'] })

export const TableStatistics = t.Object(
  {
    file_count: t.Integer(),
    delete_file_count: t.Integer({ description: 'Delete files and deletion vectors' }),
    partition_by: t.Array(
      t.Object(
        { field: t.String(), column: SourceColumn, transform: Transform },
        { title: 'PartitionField' },
      ),
      { description: 'Partition spec of new files' },
    ),
    sort_by: t.Array(
      t.Object(
        {
          column: SourceColumn,
          transform: Transform,
          direction: literals(['asc', 'desc'], { title: 'SortDirection' }),
          null_order: literals(['nulls-first', 'nulls-last'], { title: 'NullOrder' }),
        },
        { title: 'SortField' },
      ),
      { description: 'Sort order of new files' },
    ),
    columns: t.Array(
      t.Object(
        {
          name: t.String(),
          type: t.String({ description: 'Type name of DuckDB', examples: ['DECIMAL(14,2)'] }),
          null_count: nullable(t.Integer()),
          min: nullable(t.String({ description: 'At most the smallest value: writers cut long texts' })),
          max: nullable(t.String({ description: 'At least the largest value: writers cut long texts' })),
          size_bytes: nullable(t.Integer({ description: 'Compressed size' })),
        },
        { title: 'ColumnStatistics', description: 'A null value is unknown' },
      ),
    ),
  },
  { title: 'TableStatistics' },
)
export type TableStatistics = typeof TableStatistics.static

const Description = t.String({ maxLength: limits.textCharacters, examples: ['Delays by route and hour'] })
const ColumnDescriptions = t.Record(t.String(), t.String({ maxLength: limits.textCharacters }), {
  title: 'ColumnDescriptions',
  description: 'Description of each column, by column name',
  examples: [{ origin: 'Airport of departure, IATA code' }],
})

export const UpdateTableMetadata = t.Object(
  {
    description: t.Optional(Description),
    owner: t.Optional(nullable(t.String({ maxLength: OWNER_CHARACTERS }))),
    // Elysia converts any value to a record before validation, so a string would pass. `columnDescriptionsOf` validates
    // instead.
    column_descriptions: t.Optional(documentedAs(t.Unknown(), ColumnDescriptions)),
  },
  { title: 'UpdateTableMetadata' },
)
export type UpdateTableMetadata = typeof UpdateTableMetadata.static

export const TableMetadata = t.Object(
  {
    namespace: NamespaceName,
    layer: Layer,
    name: PipelineName,
    description: t.String(),
    owner: nullable(t.String()),
    column_descriptions: ColumnDescriptions,
  },
  { title: 'TableMetadata' },
)
export type TableMetadata = typeof TableMetadata.static

/** Validates the column descriptions of a body; undefined when they are absent. Throws 400 with the field name. */
export function columnDescriptionsOf({ column_descriptions: descriptions }: UpdateTableMetadata) {
  if (descriptions === undefined) return descriptions
  if (Value.Check(ColumnDescriptions, descriptions)) {
    const tooLong = Object.keys(descriptions).find((name) => name.length > COLUMN_NAME_CHARACTERS)
    if (tooLong === undefined) return descriptions
    throw invalid(
      'column_descriptions',
      `a column's name must be at most ${COLUMN_NAME_CHARACTERS} characters long`,
    )
  }
  const { path = '', message = '' } = Value.Errors(ColumnDescriptions, descriptions).First() ?? {}
  throw invalid(`column_descriptions${path.replaceAll('/', '.')}`, message.toLowerCase())
}
