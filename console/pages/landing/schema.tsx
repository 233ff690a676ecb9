import { useQuery } from '@tanstack/react-query'
import { type ReactNode, useState } from 'react'
import { ApiError } from '../../api/errors.ts'
import {
  changeZone,
  type DetectedSchema,
  detectedSchemaQuery,
  newestFilesQuery,
  type Zone,
  type ZoneAt,
} from '../../api/landing-zones.ts'
import { Button, Select, TextArea } from '../../design/controls.tsx'
import { DataGrid } from '../../design/data-grid.tsx'
import { counted } from '../../design/format.ts'
import { Loaded } from '../../design/loaded.tsx'
import { FormDialog } from '../../design/overlay.tsx'
import { Pill, type PillTone } from '../../design/status.tsx'
import { Card, Empty, Notice } from '../../design/surfaces.tsx'
import { Table } from '../../design/table.tsx'
import { say } from '../../design/toasts.tsx'
import { useFilters } from '../../shell/filters.ts'
import { quarantine } from './quarantine.ts'

/** The detected columns beside the expected columns, and the first rows. */
export function Schema({ at, zone }: { at: ZoneAt; zone: Zone }) {
  const [{ file = '' }, change] = useFilters('/landing-zones/$ns/$name')
  const [editing, setEditing] = useState<string | null>(null)
  const query = useQuery(detectedSchemaQuery(at, file, zone.file_count))
  const edit = (text: string) => setEditing(linesOf(text))
  return (
    <>
      <Card
        title="Columns"
        isFlush
        actions={
          <>
            <FileSelect
              at={at}
              total={zone.file_count}
              value={file}
              shown={query.data}
              onChange={(id) => change({ file: id })}
            />
            <Button size="small" icon="refresh" onClick={() => void query.refetch()}>
              Detect again
            </Button>
            <Button size="small" onClick={() => edit(zone.expected_schema ?? '')}>
              Edit the expected schema
            </Button>
          </>
        }
      >
        {query.error instanceof ApiError && query.error.status === 400 ? (
          <Unreadable message={query.error.message} at={at} file={file} />
        ) : (
          <Loaded query={query}>{(schema) => <Comparison schema={schema} onUse={edit} />}</Loaded>
        )}
      </Card>
      {query.data !== undefined && !query.isError && query.data.columns.length > 0 && (
        <Card title="First rows">
          {query.data.rows.length === 0 ? (
            <Empty icon="landing" title="The files have no row" />
          ) : (
            <DataGrid
              label="First rows"
              columns={query.data.columns}
              rows={query.data.rows as readonly (readonly unknown[])[]}
            />
          )}
        </Card>
      )}
      <ExpectedDialog
        at={at}
        text={editing}
        setText={setEditing}
        detected={query.data?.detected_schema ?? ''}
      />
    </>
  )
}

function FileSelect({
  at,
  total,
  value,
  shown,
  onChange,
}: {
  at: ZoneAt
  total: number
  value: string
  shown: DetectedSchema | undefined
  onChange: (id: string) => void
}) {
  const query = useQuery(newestFilesQuery(at, total))
  const offered = (query.data?.files ?? []).map(({ id, filename }) => ({ value: id, label: filename }))
  const isOffered = value === '' || offered.some((each) => each.value === value)
  const other = { value, label: shown?.files[0]?.filename ?? 'one file' }
  return (
    <Select
      label="Files to read"
      isLabelShown={false}
      value={value}
      onChange={onChange}
      choices={[{ value: '', label: 'Newest files' }, ...offered, ...(isOffered ? [] : [other])]}
    />
  )
}

function Unreadable({ message, at, file }: { message: string; at: ZoneAt; file: string }) {
  const isOneFile = file !== ''
  const setAside = () => void quarantine(at, { id: file, filename: 'The file' })
  return (
    <div className="card-body">
      <Notice
        tone="bad"
        actions={
          isOneFile && (
            <Button size="small" onClick={setAside}>
              Put the file in quarantine
            </Button>
          )
        }
      >
        <b>{isOneFile ? 'This file cannot be read.' : 'The files cannot be read as one table.'}</b> A pipeline
        on this zone fails with the same reason.
        <pre className="reason">{message}</pre>
        {!isOneFile && 'Choose one file above to see its columns.'}
      </Notice>
    </div>
  )
}

function Comparison({ schema, onUse }: { schema: DetectedSchema; onUse: (text: string) => void }) {
  const { columns, expected, source, detected_schema: detected } = schema
  const rows = comparedRows(schema)
  return (
    <>
      <div className="card-body stack">
        <Verdict schema={schema} onUse={() => onUse(detected)} />
        {source !== 'none' && <ReadFiles schema={schema} />}
      </div>
      {rows.length > 0 && (
        <Table
          label="Columns"
          rows={rows}
          keyOf={({ key }) => key}
          columns={[
            { name: 'Column', cell: ({ name }) => <b className="column-name">{name}</b> },
            ...(expected !== null && columns.length > 0
              ? [
                  {
                    name: 'Comparison',
                    cell: ({ kind }: ComparedRow) => <Pill tone={KINDS[kind].tone}>{KINDS[kind].label}</Pill>,
                  },
                ]
              : []),
            ...(columns.length > 0
              ? [{ name: 'Detected type', cell: ({ detected: type }: ComparedRow) => typeText(type) }]
              : []),
            ...(expected !== null
              ? [{ name: 'Expected type', cell: ({ expected: type }: ComparedRow) => typeText(type) }]
              : []),
          ]}
        />
      )}
    </>
  )
}

const typeText = (type: string | null): ReactNode =>
  type === null ? <span className="muted">none</span> : <code>{type}</code>

function Verdict({ schema, onUse }: { schema: DetectedSchema; onUse: () => void }) {
  const { source, expected, differences } = schema
  if (source === 'none')
    return (
      <Notice>
        There is no file and no sample, so no column can be detected. Upload a file, or a sample of later
        files.
      </Notice>
    )
  const use = (kind: 'primary' | 'plain') => (
    <Button size="small" kind={kind} onClick={onUse}>
      Use the detected schema
    </Button>
  )
  if (expected === null)
    return (
      <Notice actions={use('primary')}>
        No schema is expected. With an expected schema, this page marks files with other columns.
      </Notice>
    )
  if (differences.length === 0)
    return <Notice tone="good">The files have exactly the expected columns.</Notice>
  return (
    <Notice tone="warn" actions={use('plain')}>
      {counted(differences.length, 'difference')} from the expected schema
    </Notice>
  )
}

function ReadFiles({ schema }: { schema: DetectedSchema }) {
  const { files, total_files: total, source, function: reader } = schema
  const noun = source === 'samples' ? 'sample' : 'file'
  return (
    <details className="read-files">
      <summary>
        Read by <code>{reader}</code> from{' '}
        {files.length === total ? counted(total, noun) : `${files.length} of ${counted(total, noun)}`}
        {source === 'samples' && ', because the zone has no file'}
      </summary>
      <ul>
        {files.map(({ filename }) => (
          <li key={filename}>{filename}</li>
        ))}
      </ul>
    </details>
  )
}

type Kind = DetectedSchema['differences'][number]['kind'] | 'same'

const KINDS: Record<Kind, { label: string; tone: PillTone }> = {
  same: { label: 'as expected', tone: 'good' },
  missing: { label: 'missing', tone: 'bad' },
  unexpected: { label: 'unexpected', tone: 'warn' },
  other_type: { label: 'other type', tone: 'warn' },
}

interface ComparedRow {
  key: string
  name: string
  detected: string | null
  expected: string | null
  kind: Kind
}

/** Detected columns in their order, then missing columns. */
function comparedRows({ columns, expected, differences }: DetectedSchema): ComparedRow[] {
  const kinds = new Map(differences.map(({ column, kind }) => [column.toLowerCase(), kind]))
  const wanted = new Map((expected ?? []).map(({ name, type }) => [name.toLowerCase(), type]))
  const found = columns.map(({ name, type }) => ({
    key: `found ${name}`,
    name,
    detected: type,
    expected: wanted.get(name.toLowerCase()) ?? null,
    kind: kinds.get(name.toLowerCase()) ?? ('same' as const),
  }))
  const names = new Set(columns.map(({ name }) => name.toLowerCase()))
  const missing = (expected ?? [])
    .filter(({ name }) => !names.has(name.toLowerCase()))
    .map(({ name, type }) => ({
      key: `missing ${name}`,
      name,
      detected: null,
      expected: type,
      kind: 'missing' as const,
    }))
  return [...found, ...missing]
}

/** Each column in a line of its own. Commas inside of types and of quoted names stay. */
const linesOf = (text: string): string =>
  text.replace(/"(?:[^"]|"")*"|\([^)]*\)|,\s*/g, (part) => (part.startsWith(',') ? '\n' : part))

/** The opposite of `linesOf`. Commas at the ends of lines may be missing. */
const joined = (lines: string): string =>
  lines
    .split('\n')
    .map((line) => line.trim().replace(/,$/, ''))
    .filter((line) => line !== '')
    .join(',')

function ExpectedDialog({
  at,
  text,
  setText,
  detected,
}: {
  at: ZoneAt
  /** Null: the dialog is closed. */
  text: string | null
  setText: (text: string | null) => void
  detected: string
}) {
  return (
    <FormDialog
      title="Expected schema"
      description="One name:TYPE in each line. The types are those of DuckDB. A name with spaces is in double quotes."
      isOpen={text !== null}
      onClose={() => setText(null)}
      submitLabel="Save"
      submit={async () => {
        const schema = joined(text ?? '')
        await changeZone(at, { expected_schema: schema === '' ? null : schema })
        say(schema === '' ? 'No schema is expected' : 'The expected schema is saved')
      }}
    >
      <TextArea
        label="Columns and types"
        className="mono"
        rows={10}
        spellCheck={false}
        hint="Empty: no schema is expected."
        placeholder={'code:VARCHAR\ndelay:BIGINT'}
        value={text ?? ''}
        onChange={(event) => setText(event.target.value)}
      />
      {detected !== '' && (
        <div>
          <Button size="small" onClick={() => setText(linesOf(detected))}>
            Fill in the detected schema
          </Button>
        </div>
      )}
    </FormDialog>
  )
}
