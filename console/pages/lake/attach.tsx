import { useState } from 'react'
import { ROOT } from '../../api/request.ts'
import { hasCredential } from '../../api/session.ts'
import type { TableAt, Version } from '../../api/tables.ts'
import { Segments } from '../../design/controls.tsx'
import { Card, CodeBlock } from '../../design/surfaces.tsx'
import { ENGINES, type Engine, snippetOf, warehouseOf } from './snippets.ts'

const LABELS: Record<Engine, string> = { duckdb: 'DuckDB', pyiceberg: 'PyIceberg', spark: 'Spark' }
/** The names of tags start with a letter; commit numbers and times do not. */
const TAG = /^[a-z]/

/** How another engine reads the table. */
export function Attach({ at, version }: { at: TableAt; version: Version }) {
  const [engine, setEngine] = useState<Engine>('duckdb')
  const { branch = '', as_of: asOf = '' } = version
  const isPast = asOf !== '' && !TAG.test(asOf)
  const code = snippetOf(engine, at, {
    uri: new URL('iceberg', ROOT).href,
    warehouse: warehouseOf(branch || (isPast ? '' : asOf)),
    hasKey: hasCredential(),
  })
  return (
    <Card
      title="Read it with another engine"
      actions={
        <Segments
          label="Engine"
          value={engine}
          choices={ENGINES.map((value) => ({ value, label: LABELS[value] }))}
          onChange={setEngine}
        />
      }
    >
      {isPast && (
        <p className="muted attach-note">
          These commands read the table as it is now. A tag names an earlier commit for other engines.
        </p>
      )}
      <CodeBlock code={code} label={`Commands for ${LABELS[engine]}`} />
    </Card>
  )
}
