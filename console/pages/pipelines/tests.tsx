import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { ok } from '../../api/client.ts'
import { queryClient } from '../../api/queries.ts'
import { Button, IconButton, Select, TextArea, TextField } from '../../design/controls.tsx'
import { duration } from '../../design/format.ts'
import { Loaded } from '../../design/loaded.tsx'
import { FormDialog } from '../../design/overlay.tsx'
import { Pill, Status, Tag } from '../../design/status.tsx'
import { Card, Empty } from '../../design/surfaces.tsx'
import { Table } from '../../design/table.tsx'
import { performing, sayError } from '../../design/toasts.tsx'
import { type Named, pipelineAt } from './named.ts'

const runAll = (at: Named) => ok(pipelineAt(at).tests.run.post())
type Results = Awaited<ReturnType<typeof runAll>>

/** The quality tests: a test is a query whose rows are violations. */
export function Tests({ at }: { at: Named }) {
  const [results, setResults] = useState<Results | null>(null)
  const [isRunning, setRunning] = useState(false)
  const [isCreating, setCreating] = useState(false)
  const query = useQuery({
    queryKey: ['tests', at.ns, at.layer, at.name],
    queryFn: () => ok(pipelineAt(at).tests.get({ query: {} })),
  })
  const run = async () => {
    setRunning(true)
    try {
      setResults(await runAll(at))
    } catch (error) {
      sayError(error)
    } finally {
      setRunning(false)
    }
  }
  const remove = (name: string) =>
    performing(
      ok(pipelineAt(at).tests({ testName: name }).delete()).then(() =>
        queryClient.invalidateQueries({ queryKey: ['tests'] }),
      ),
      `The test ${name} is deleted`,
    )
  const resultOf = (name: string) => results?.results.find((result) => result.name === name)
  return (
    <Card
      title="Quality tests"
      isFlush
      actions={
        <>
          {results && (
            <span role="status">
              {results.passed} passed, {results.failed} failed
            </span>
          )}
          <Button size="small" icon="runs" disabled={isRunning} onClick={() => void run()}>
            {isRunning ? 'Running…' : 'Run all on main'}
          </Button>
          <Button size="small" kind="primary" icon="plus" onClick={() => setCreating(true)}>
            New test
          </Button>
        </>
      }
    >
      <Loaded query={query}>
        {({ tests }) =>
          tests.length === 0 ? (
            <Empty
              icon="check"
              title="No test yet"
              actions={<Button onClick={() => setCreating(true)}>Write a test</Button>}
            >
              Each run executes the tests on its branch. A failing test with severity error keeps the data out
              of main.
            </Empty>
          ) : (
            <Table
              label="Quality tests"
              rows={tests}
              keyOf={({ name }) => name}
              columns={[
                {
                  name: 'Test',
                  cell: (test) => (
                    <>
                      <b>{test.name}</b> {!test.published && <Pill tone="warn">not published</Pill>}
                      {test.description && <div className="muted">{test.description}</div>}
                      <pre className="plan">{test.sql}</pre>
                    </>
                  ),
                },
                { name: 'Severity', cell: (test) => <Tag>{test.severity}</Tag> },
                {
                  name: 'Result',
                  cell: ({ name }) => {
                    const result = resultOf(name)
                    return result === undefined ? (
                      <span className="muted">not run here</span>
                    ) : (
                      <>
                        <Status status={result.status} /> {duration(result.duration_ms)}
                        {result.error && <div>{result.error}</div>}
                        {result.samples.map((sample) => (
                          <div className="mono" key={sample}>
                            {sample}
                          </div>
                        ))}
                      </>
                    )
                  },
                },
                {
                  name: 'Actions',
                  cell: ({ name }) => (
                    <IconButton
                      icon="cross"
                      label={`Delete ${name}`}
                      size="small"
                      onClick={() => void remove(name)}
                    />
                  ),
                },
              ]}
            />
          )
        }
      </Loaded>
      <CreateTest at={at} isOpen={isCreating} onClose={() => setCreating(false)} />
    </Card>
  )
}

function CreateTest({ at, isOpen, onClose }: { at: Named; isOpen: boolean; onClose: () => void }) {
  const own = `${at.ns}.${at.layer}.${at.name}`
  const [form, setForm] = useState({
    name: '',
    sql: `select * from {{ ref('${at.layer}.${at.name}') }} where false`,
    severity: 'error' as 'error' | 'warn',
    description: '',
  })
  return (
    <FormDialog
      title="New quality test"
      description={`A query on ${own} whose rows are violations. No row means that the test passes.`}
      isOpen={isOpen}
      onClose={onClose}
      submitLabel="Create"
      submit={async () => {
        await ok(pipelineAt(at).tests.post(form))
        await queryClient.invalidateQueries({ queryKey: ['tests'] })
        await queryClient.invalidateQueries({ queryKey: ['pipelines'] })
      }}
    >
      <TextField
        label="Name"
        required
        value={form.name}
        onChange={(event) => setForm({ ...form, name: event.target.value })}
      />
      <TextArea
        label="SQL"
        required
        rows={5}
        className="mono"
        spellCheck={false}
        value={form.sql}
        onChange={(event) => setForm({ ...form, sql: event.target.value })}
      />
      <Select
        label="Severity"
        value={form.severity}
        choices={[
          { value: 'error', label: 'error: a violation stops the run' },
          { value: 'warn', label: 'warn: a violation is only shown' },
        ]}
        onChange={(value) => setForm({ ...form, severity: value as 'error' | 'warn' })}
      />
      <TextField
        label="Description"
        value={form.description}
        onChange={(event) => setForm({ ...form, description: event.target.value })}
      />
    </FormDialog>
  )
}
