import { useQuery } from '@tanstack/react-query'
import { Link, useNavigate, useParams } from '@tanstack/react-router'
import { useMemo, useState } from 'react'
import { approveRun, cancelRun, isOver, type Run, rejectRun, requestRun, runQuery } from '../../api/runs.ts'
import { Time } from '../../design/clock.tsx'
import { Button, TextField } from '../../design/controls.tsx'
import { count, duration } from '../../design/format.ts'
import { Loaded } from '../../design/loaded.tsx'
import { FormDialog } from '../../design/overlay.tsx'
import { Status } from '../../design/status.tsx'
import { Card, Facts, Notice, Page } from '../../design/surfaces.tsx'
import { performing } from '../../design/toasts.tsx'
import { RunDiff } from './diff.tsx'
import { RunInputs } from './inputs.tsx'
import { RunLog } from './log.tsx'
import { outcomeOf } from './outcome.ts'
import { RunTests } from './tests.tsx'
import { Timeline } from './timeline.tsx'
import { useLog } from './use-log.ts'

/** One run: how far it is, what it says, what it changes, and what can be done with it. */
export default function RunPage() {
  const { id } = useParams({ from: '/runs/$id' })
  const query = useQuery(runQuery(id))
  const run = query.data
  return (
    <Page
      title={run ? `Run of ${run.namespace}.${run.layer}.${run.pipeline}` : 'Run'}
      crumbs={<Link to="/runs">Runs</Link>}
      subtitle={<span className="mono">{id}</span>}
      actions={run && <RunActions run={run} />}
    >
      <Loaded query={query}>{(loaded) => <RunDetails run={loaded} />}</Loaded>
    </Page>
  )
}

function RunDetails({ run }: { run: Run }) {
  const isReviewed = run.status === 'running' && run.phase === 'review'
  const log = useLog(run.id)
  const outcome = useMemo(() => outcomeOf(log.lines), [log.lines])
  return (
    <div className="stack">
      {run.error && <Notice tone="bad">{run.error}</Notice>}
      {run.waiting_reason && <Notice tone="warn">Waits: {run.waiting_reason}</Notice>}
      {isReviewed && (
        <Notice tone="busy">
          The run waits for a review. Look at its change below, then approve or reject it. Nothing reaches
          main before.
        </Notice>
      )}
      <div className="run-grid">
        <Card title="Facts">
          <RunFacts run={run} cost={outcome.cost} />
        </Card>
        <Card title="Phases">
          <Timeline id={run.id} isOver={isOver(run)} />
        </Card>
      </div>
      <RunTests run={run} />
      <RunDiff run={run} />
      <RunInputs run={run} outcome={outcome} />
      <RunLog id={run.id} log={log} />
    </div>
  )
}

function RunFacts({ run, cost }: { run: Run; cost: string | null }) {
  const { namespace: ns, layer, pipeline: name } = run
  return (
    <Facts
      facts={[
        ['Status', <Status key="status" status={run.status} phase={run.phase} />],
        [
          'Pipeline',
          <Link key="pipeline" to="/pipelines/$ns/$layer/$name" params={{ ns, layer, name }}>
            {ns}.{layer}.{name}
          </Link>,
        ],
        ['Code', run.draft ? 'the draft' : `version ${run.version_number ?? '–'}`],
        ['Trigger', run.trigger],
        ['Branch', run.branch],
        ['Requested', <Time key="requested" at={run.created_at} exact />],
        ['Started', <Time key="started" at={run.started_at} exact />],
        ['Duration', run.duration_ms === null ? '–' : duration(run.duration_ms)],
        ['Rows written', run.rows_written === null ? '–' : count(run.rows_written)],
        ['Cost', cost ?? '–'],
        ['Attempt', String(run.attempt)],
        ['Read from', run.base_commit === null ? '–' : `commit ${run.base_commit} of main`],
        ['Merged as', run.merged_commit === null ? '–' : `commit ${run.merged_commit}`],
        [
          'Statechart',
          <Link key="chart" to="/inspector/$machine/$id" params={{ machine: 'run', id: run.id }}>
            Open in the inspector
          </Link>,
        ],
      ]}
    />
  )
}

type Asked = 'approve' | 'reject' | 'cancel' | null

function RunActions({ run }: { run: Run }) {
  const [asked, setAsked] = useState<Asked>(null)
  const [message, setMessage] = useState('')
  const close = () => {
    setAsked(null)
    setMessage('')
  }
  const { id, namespace: ns, layer, pipeline: name, branch } = run
  const [isStarting, setStarting] = useState(false)
  const navigate = useNavigate()
  const again = async () => {
    setStarting(true)
    const more = { ...(branch !== 'main' && { branch }), ...(run.draft && { draft: true }) }
    const request = async () => {
      const next = await requestRun({ ns, layer, name }, more)
      await navigate({ to: '/runs/$id', params: { id: next } })
    }
    await performing(request(), 'The run was requested')
    setStarting(false)
  }
  const isReviewed = run.status === 'running' && run.phase === 'review'
  return (
    <>
      {isReviewed && (
        <>
          <Button kind="primary" icon="check" onClick={() => setAsked('approve')}>
            Approve
          </Button>
          <Button kind="danger" icon="cross" onClick={() => setAsked('reject')}>
            Reject
          </Button>
        </>
      )}
      {!isOver(run) && <Button onClick={() => setAsked('cancel')}>Cancel the run</Button>}
      {isOver(run) && (
        <Button icon="refresh" disabled={isStarting} onClick={() => void again()}>
          Run again
        </Button>
      )}
      <FormDialog
        title="Approve the change"
        description="The run merges into main with the data that was tested."
        isOpen={asked === 'approve'}
        onClose={close}
        submitLabel="Approve"
        submit={() => approveRun(id, message)}
      >
        <TextField
          label="Note (optional)"
          value={message}
          onChange={(event) => setMessage(event.target.value)}
        />
      </FormDialog>
      <FormDialog
        title="Reject the change"
        description="The run fails with this note, and main stays as it is."
        isOpen={asked === 'reject'}
        onClose={close}
        submitLabel="Reject"
        isDangerous
        submit={() => rejectRun(id, message)}
      >
        <TextField
          label="Reason"
          required
          value={message}
          onChange={(event) => setMessage(event.target.value)}
        />
      </FormDialog>
      <FormDialog
        title="Cancel the run"
        description="The run stops and its branch is closed. Main stays as it is."
        isOpen={asked === 'cancel'}
        onClose={close}
        submitLabel="Cancel the run"
        isDangerous
        submit={() => cancelRun(id)}
      />
    </>
  )
}
