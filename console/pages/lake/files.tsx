import { useQuery } from '@tanstack/react-query'
import { type DataFile, dataFilesQuery, FILE_ROWS, type TableAt, type Version } from '../../api/tables.ts'
import { bytes, count } from '../../design/format.ts'
import { Loaded } from '../../design/loaded.tsx'
import { Tag } from '../../design/status.tsx'
import { Card, Empty } from '../../design/surfaces.tsx'
import { type Column, Table } from '../../design/table.tsx'
import { useFilters } from '../../shell/filters.ts'
import { usePager } from '../../shell/paging.tsx'

/** The live data files of the table, with their partitions. */
export function Files({ at, version, isView }: { at: TableAt; version: Version; isView: boolean }) {
  const [{ offset }] = useFilters('/lake/$ns/$layer/$name')
  const pager = usePager(FILE_ROWS)
  const query = useQuery({ ...dataFilesQuery(at, version, offset), enabled: !isView })
  if (isView)
    return (
      <Card title="Files">
        <Empty icon="lake" title="A view stores no rows">
          Its rows come from the tables that it reads, at the time of each query.
        </Empty>
      </Card>
    )
  return (
    <Card title="Files" isFlush>
      <Loaded query={query}>
        {({ files, total }) =>
          total === 0 ? (
            <Empty icon="lake" title="The table has no data file">
              The first rows that a run or another engine writes make the first file.
            </Empty>
          ) : (
            <>
              <Table label="Data files" rows={files} keyOf={({ path }) => path} columns={columnsOf(files)} />
              {pager(total)}
            </>
          )
        }
      </Loaded>
    </Card>
  )
}

function columnsOf(files: readonly DataFile[]): Column<DataFile>[] {
  const hasPartitions = files.some(({ partition }) => partition.length > 0)
  const hasDeletes = files.some(({ deleted_rows: deleted }) => deleted !== 0)
  const partition: Column<DataFile> = {
    name: 'Partition',
    cell: ({ partition: values }) => (
      <span className="row">
        {values.map(({ field, value }) => (
          <Tag key={field}>
            {field} = {value ?? <i>NULL</i>}
          </Tag>
        ))}
      </span>
    ),
  }
  const deletes: Column<DataFile> = {
    name: 'Deleted rows',
    isNumeric: true,
    cell: ({ deleted_rows: deleted }) =>
      deleted === null ? <span title="Only the delete files tell the number">some</span> : count(deleted),
  }
  return [
    {
      name: 'File',
      cell: ({ path }) => (
        <code className="file-name" title={path}>
          {path.slice(path.lastIndexOf('/') + 1)}
        </code>
      ),
    },
    ...(hasPartitions ? [partition] : []),
    { name: 'Rows', isNumeric: true, cell: ({ row_count: rows }) => count(rows) },
    ...(hasDeletes ? [deletes] : []),
    { name: 'Size', isNumeric: true, cell: ({ size_bytes: size }) => bytes(size) },
  ]
}
