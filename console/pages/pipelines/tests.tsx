import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useState } from 'react'
import type { Named, Pipeline } from '../../api/pipelines.ts'
import { deleteTest, runTests, type TestResult, testsQuery } from '../../api/quality-tests.ts'
import { runTestsQuery } from '../../api/runs.ts'
import { Button, IconButton } from '../../design/controls.tsx'
import { duration } from '../../design/format.ts'
import { Loaded } from '../../design/loaded.tsx'
import { FormDialog } from '../../design/overlay.tsx'
import { Pill, Status, Tag } from '../../design/status.tsx'
import { Card, Empty } from '../../design/surfaces.tsx'
import { Table } from '../../design/table.tsx'
import { sayError } from '../../design/toasts.tsx'
import { CreateTest } from './create-test.tsx'

/** The quality tests: a test is a query whose rows are violations. */
export function Tests({ at, pipeline }: { at: Named; pipeline: Pipeline }) {
  const [ran, setRan] = useState<readonly TestResult[] | null>(null)
  const [isRunning, setRunning] = useState(false)
  const [isCreating, setCreating] = useState(false)
  const [removed, setRemoved] = useState<string | null>(null)
  const query = useQuery(testsQuery(at))
  const { last_run: last } = pipeline
  const { data: lastResults } = useQuery({
    ...runTestsQuery(last?.run_id ?? '', last?.status ?? ''),
    enabled: last !== null,
  })
  const results = ran ?? lastResults?.results ?? []
  const run = async () => {
    setRunning(true)
    try {
      setRan(await runTests(at))
    } catch (error) {
      sayError(error)
    } finally {
      setRunning(false)
    }
  }
  return (
    <Card
      title="Quality tests"
      isFlush
      actions={
        <>
          <Summary results={results} runId={ran === null ? (last?.run_id ?? null) : null} />
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
                  cell: ({ name }) => <Outcome result={results.find((each) => each.name === name)} />,
                },
                {
                  name: 'Actions',
                  cell: ({ name }) => (
                    <IconButton
                      icon="cross"
                      label={`Delete ${name}`}
                      size="small"
                      onClick={() => setRemoved(name)}
                    />
                  ),
                },
              ]}
            />
          )
        }
      </Loaded>
      <CreateTest at={at} isOpen={isCreating} onClose={() => setCreating(false)} />
      <FormDialog
        title={`Delete the test ${removed}`}
        description="Its file is removed from the draft. Published versions keep it until the next publish."
        isOpen={removed !== null}
        onClose={() => setRemoved(null)}
        submitLabel="Delete the test"
        isDangerous
        submit={() => deleteTest(at, removed ?? '')}
      />
    </Card>
  )
}

/** The numbers of results, and where they come from: a run, or main at this moment. */
function Summary({ results, runId }: { results: readonly TestResult[]; runId: string | null }) {
  if (results.length === 0) return null
  const passed = results.filter(({ status }) => status === 'passed').length
  return (
    <span className="row" role="status">
      {`${passed} passed, ${results.length - passed} failed`}
      {runId === null ? (
        <span>on main now</span>
      ) : (
        <Link to="/runs/$id" params={{ id: runId }}>
          in the last run
        </Link>
      )}
    </span>
  )
}

function Outcome({ result }: { result: TestResult | undefined }) {
  if (result === undefined) return <span className="muted">no result yet</span>
  return (
    <>
      <Status status={result.status} /> {duration(result.duration_ms)}
      {result.error && <div>{result.error}</div>}
      {result.samples.map((sample, index) => (
        <div className="mono" key={`${index} ${sample}`}>
          {sample}
        </div>
      ))}
    </>
  )
}
