import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useState } from 'react'
import { type RunInputs as Inputs, type Run, runInputsQuery } from '../../api/runs.ts'
import { Button } from '../../design/controls.tsx'
import { bytes, count } from '../../design/format.ts'
import { Loaded } from '../../design/loaded.tsx'
import { Dialog } from '../../design/overlay.tsx'
import { Pill } from '../../design/status.tsx'
import { Card, CodeBlock } from '../../design/surfaces.tsx'
import { PinnedFile } from '../pipelines/pinned-file.tsx'
import type { Outcome } from './outcome.ts'

/** Everything that the run reads: code, tables at a commit, landing files, and the SQL that follows from them. */
export function RunInputs({ run, outcome }: { run: Run; outcome: Outcome }) {
  const query = useQuery(runInputsQuery(run))
  return (
    <Card title="Inputs">
      <Loaded query={query}>
        {(inputs) => (
          <div className="stack">
            <Code inputs={inputs} />
            <Tables reads={outcome.reads} commit={run.base_commit} />
            <Files inputs={inputs} />
            {outcome.sql !== null && (
              <details>
                <summary>SQL as it was executed</summary>
                <CodeBlock label="SQL as it was executed" code={outcome.sql} />
              </details>
            )}
          </div>
        )}
      </Loaded>
    </Card>
  )
}

function Code({ inputs }: { inputs: Inputs }) {
  const [shown, setShown] = useState<Inputs['code'][number] | null>(null)
  return (
    <section className="run-inputs">
      <h3>Code</h3>
      <div className="row">
        {inputs.code.map((file) => (
          <Button size="small" key={file.path} onClick={() => setShown(file)}>
            {file.path.split('/').slice(4).join('/')}
          </Button>
        ))}
      </div>
      {shown !== null && (
        <Dialog title={shown.path} size="large" isOpen onClose={() => setShown(null)}>
          <PinnedFile path={shown.path} pin={shown.version_id} earlier={null} label={shown.path} />
        </Dialog>
      )}
    </section>
  )
}

function Tables({ reads, commit }: { reads: readonly string[]; commit: number | null }) {
  const tables = reads.filter((each) => !each.startsWith('landing zone '))
  if (tables.length === 0) return null
  return (
    <section className="run-inputs">
      <h3>Tables{commit !== null && ` at commit ${commit}`}</h3>
      <ul>
        {tables.map((each) => (
          <li key={each}>{each}</li>
        ))}
      </ul>
    </section>
  )
}

function Files({ inputs: { landing_files: files, landing_file_count: total } }: { inputs: Inputs }) {
  if (total === 0) return null
  return (
    <section className="run-inputs">
      <h3>Landing files</h3>
      <ul>
        {files.map(({ id, namespace: ns, zone, filename, size_bytes: size, archived }) => (
          <li key={id}>
            <Link to="/landing-zones/$ns/$name" params={{ ns, name: zone }}>
              {ns}.{zone}
            </Link>{' '}
            {filename}, {bytes(size)} {archived && <Pill tone="idle">archived</Pill>}
          </li>
        ))}
      </ul>
      {files.length < total && (
        <p className="muted">{count(total - files.length)} more, some of them deleted since</p>
      )}
    </section>
  )
}
