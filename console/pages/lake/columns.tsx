import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { messageOf } from '../../api/errors.ts'
import {
  describeTable,
  type Statistics,
  statisticsQuery,
  type TableAt,
  type Table as TableState,
  type Version,
} from '../../api/tables.ts'
import { Button, TextArea, TextField } from '../../design/controls.tsx'
import { bytes, count, counted } from '../../design/format.ts'
import { FormDialog } from '../../design/overlay.tsx'
import { Card, Facts, Notice } from '../../design/surfaces.tsx'
import { type Column, Table } from '../../design/table.tsx'

interface Shown {
  at: TableAt
  table: TableState
  version: Version
}

/** The table, its owner and its columns, with the statistics of its files. A view has no files. */
export function Columns({ at, table, version }: Shown) {
  const [isEditing, setEditing] = useState(false)
  const isView = table.kind === 'view'
  // Other versions may lack columns, and the service removes the descriptions that are not sent.
  const isPresent = Object.keys(version).length === 0
  const { data: statistics, error } = useQuery({ ...statisticsQuery(at, version), enabled: !isView })
  return (
    <>
      <Card
        title={isView ? 'About the view' : 'About the table'}
        actions={
          isPresent && (
            <Button size="small" onClick={() => setEditing(true)}>
              Describe
            </Button>
          )
        }
      >
        <Facts
          facts={[
            ['Description', table.description ?? <Unknown />],
            ['Owner', table.owner ?? <Unknown />],
            ...(isView ? ([['Kind', 'view']] as const) : layoutOf(statistics)),
          ]}
        />
      </Card>
      <Card title="Columns" isFlush>
        {error && <Notice tone="warn">No statistics: {messageOf(error)}</Notice>}
        <Table
          label="Columns"
          rows={table.columns}
          keyOf={({ name }) => name}
          columns={[
            { name: 'Column', cell: ({ name }) => <b>{name}</b> },
            { name: 'Type', cell: ({ type }) => <code>{type}</code> },
            { name: 'Description', cell: (column) => column.description ?? <Unknown /> },
            ...(isView ? [] : statisticsColumns(statistics)),
          ]}
        />
        {!isView && (
          <p className="lake-note">
            The statistics come from the metadata of the data files, deleted rows included. Writers cut long
            texts.
          </p>
        )}
      </Card>
      {isEditing && isPresent && <Describe at={at} table={table} onClose={() => setEditing(false)} />}
    </>
  )
}

const Unknown = () => <span className="muted">–</span>

/** How new files are written, for people. */
function layoutOf(statistics: Statistics | undefined): (readonly [string, React.ReactNode])[] {
  if (statistics === undefined) return []
  const { partition_by: parts, sort_by: sorts, file_count: files, delete_file_count: deletes } = statistics
  const place = (column: string | null, transform: string) =>
    transform === 'identity' ? (column ?? '?') : `${transform}(${column ?? '?'})`
  const partitions = parts.filter(({ transform }) => transform !== 'void')
  return [
    ['Files', `${counted(files, 'data file')}${deletes > 0 ? `, ${counted(deletes, 'delete file')}` : ''}`],
    [
      'Partitioned by',
      partitions.length === 0 ? (
        <Unknown />
      ) : (
        <code>{partitions.map(({ column, transform }) => place(column, transform)).join(', ')}</code>
      ),
    ],
    ...(sorts.length === 0
      ? []
      : ([
          [
            'Sorted by',
            <code key="sort">
              {sorts
                .map(
                  ({ column, transform, direction, null_order: nulls }) =>
                    `${place(column, transform)} ${direction} ${nulls.replace('-', ' ')}`,
                )
                .join(', ')}
            </code>,
          ],
        ] as const)),
  ]
}

type TableColumn = TableState['columns'][number]

function statisticsColumns(statistics: Statistics | undefined): Column<TableColumn>[] {
  const of = new Map(statistics?.columns.map((column) => [column.name, column]))
  const bound = (text: string | null | undefined) =>
    text === null || text === undefined ? (
      <Unknown />
    ) : (
      <code className="bound" title={text}>
        {text}
      </code>
    )
  const amount = (value: number | null | undefined, text: (value: number) => string) =>
    value === null || value === undefined ? <Unknown /> : text(value)
  return [
    { name: 'Nulls', isNumeric: true, cell: ({ name }) => amount(of.get(name)?.null_count, count) },
    { name: 'Min', cell: ({ name }) => bound(of.get(name)?.min) },
    { name: 'Max', cell: ({ name }) => bound(of.get(name)?.max) },
    { name: 'Size', isNumeric: true, cell: ({ name }) => amount(of.get(name)?.size_bytes, bytes) },
  ]
}

function Describe({ at, table, onClose }: { at: TableAt; table: TableState; onClose: () => void }) {
  const [description, setDescription] = useState(table.description ?? '')
  const [owner, setOwner] = useState(table.owner ?? '')
  const [texts, setTexts] = useState<Record<string, string>>(() =>
    Object.fromEntries(table.columns.map((column) => [column.name, column.description ?? ''])),
  )
  const save = async () => {
    // The service replaces the descriptions of all columns, so the unchanged ones are sent too.
    const described = Object.fromEntries(Object.entries(texts).filter(([, text]) => text !== ''))
    const isNewOwner = owner.trim() !== (table.owner ?? '')
    await describeTable(at, {
      description,
      ...(isNewOwner && { owner: owner.trim() === '' ? null : owner.trim() }),
      column_descriptions: described,
    })
  }
  return (
    <FormDialog title={`Describe ${at.name}`} isOpen onClose={onClose} submitLabel="Save" submit={save}>
      <TextArea
        label="The table"
        rows={2}
        value={description}
        onChange={(event) => setDescription(event.target.value)}
      />
      <TextField
        label="Owned by"
        placeholder="a team or a person"
        maxLength={255}
        value={owner}
        onChange={(event) => setOwner(event.target.value)}
      />
      <h3>Columns</h3>
      {table.columns.map(({ name }) => (
        <TextField
          key={name}
          label={name}
          value={texts[name] ?? ''}
          onChange={(event) => setTexts({ ...texts, [name]: event.target.value })}
        />
      ))}
    </FormDialog>
  )
}
