import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { type ReactNode, useEffect, useRef, useState } from 'react'
import { messageOf } from '../../api/errors.ts'
import { NO_SOURCE } from '../../api/pipelines.ts'
import {
  dropFile,
  isRunning,
  type Made,
  makePipeline,
  type Progress,
  progressQuery,
  startOver,
  stepOf,
  succeeded,
  TOUR,
  tourChanged,
} from '../../api/tour.ts'
import { BRONZE, FILE, FILE_NAME, FIXED, GOLD, ZONE } from '../../api/tour-sample.ts'
import { Button } from '../../design/controls.tsx'
import { Icon } from '../../design/icons.tsx'
import { Loaded } from '../../design/loaded.tsx'
import { FormDialog } from '../../design/overlay.tsx'
import { Status } from '../../design/status.tsx'
import { CodeBlock, Notice, Page } from '../../design/surfaces.tsx'
import { useFilters } from '../../shell/filters.ts'
import { RunTests } from '../runs/tests.tsx'
import { GoldRows } from './gold-rows.tsx'

/** Five steps from a file to a gated gold table, with real data. */
export default function Welcome() {
  const [{ namespace = TOUR }] = useFilters('/welcome')
  const query = useQuery(progressQuery(namespace))
  return (
    <Page
      title="From a file to a table that you can trust"
      subtitle={`Five steps, about five minutes. Everything is real and stays in the namespace ${namespace}.`}
      actions={
        <StartOver namespace={namespace} isUseful={query.data !== undefined && stepOf(query.data) > 1} />
      }
    >
      <Loaded query={query}>{(progress) => <Steps namespace={namespace} progress={progress} />}</Loaded>
    </Page>
  )
}

function StartOver({ namespace, isUseful }: { namespace: string; isUseful: boolean }) {
  const [isAsked, setAsked] = useState(false)
  if (!isUseful) return null
  return (
    <>
      <Button onClick={() => setAsked(true)}>Start over</Button>
      <FormDialog
        title="Start over"
        description={`The landing zone ${ZONE} and the pipelines bronze.${BRONZE.name} and gold.${GOLD.name} of the namespace ${namespace} are deleted.`}
        isOpen={isAsked}
        onClose={() => setAsked(false)}
        submitLabel="Delete them"
        isDangerous
        submit={() => startOver(namespace)}
      />
    </>
  )
}

function Steps({ namespace, progress }: { namespace: string; progress: Progress }) {
  const { bronze, gold } = progress
  // A run of the fix is not a step back.
  const reached = useRef(0)
  const step = isRunning(gold) ? Math.max(reached.current, stepOf(progress)) : stepOf(progress)
  reached.current = step
  const at = { ns: namespace, layer: GOLD.layer, name: GOLD.name }
  return (
    <ol className="tour">
      <Step number={1} at={step} title="Drop a file">
        <p>
          A landing zone is where files arrive: by hand, by a script, by S3. This file has five orders. One of
          them is wrong.
        </p>
        <Code label={FILE_NAME} code={FILE} />
        {step === 1 ? (
          <Act label="Drop the file" act={() => dropFile(namespace)} />
        ) : (
          <Link to="/landing-zones/$ns/$name" params={{ ns: namespace, name: ZONE }}>
            Look at the landing zone
          </Link>
        )}
      </Step>
      <Step number={2} at={step} title="Read it into a bronze table">
        <p>
          A pipeline is a query, and its result is a table. Bronze pipelines read files. The run works on a
          branch of its own, and merges it into main when it has succeeded.
        </p>
        <Code label="bronze.orders" code={BRONZE.source} />
        {step === 2 && (
          <Act
            label="Publish and run"
            isBusy={isRunning(bronze)}
            act={() => makePipeline(namespace, BRONZE)}
          />
        )}
        <RunLine made={bronze} />
      </Step>
      <Step number={3} at={step} title="Make a gold table, with a test as its gate">
        <p>
          A gold pipeline answers a question: how much did each customer spend? The test selects rows that
          must not exist. If it finds one, nothing reaches main.
        </p>
        <Code label="gold.revenue" code={GOLD.source} />
        <Code label={`Test ${GOLD.test?.name}`} code={GOLD.test?.sql ?? ''} />
        {step === 3 && (
          <Act label="Publish and run" isBusy={isRunning(gold)} act={() => makePipeline(namespace, GOLD)} />
        )}
        {step === 3 && <RunLine made={gold} />}
      </Step>
      <Step number={4} at={step} title="See what the gate caught, and fix it">
        {gold?.run != null && step === 4 && !isRunning(gold) && (
          <>
            <Notice tone="bad">The run failed. Its branch is gone, and main has never had these rows.</Notice>
            <RunTests run={gold.run} />
            <p>Linus has an order with a negative amount. The fix leaves such orders out:</p>
          </>
        )}
        <Code label="gold.revenue, fixed" code={FIXED.source} />
        {step === 4 && (
          <Act
            label="Publish the fix and run"
            isBusy={isRunning(gold)}
            act={() => makePipeline(namespace, FIXED)}
          />
        )}
        <RunLine made={gold} />
      </Step>
      <Step number={5} at={step} title="Use the table">
        {succeeded(gold) && (
          <>
            <GoldRows namespace={namespace} run={gold?.run?.id ?? ''} />
            <ul className="tour-next">
              <li>
                <Link to="/pipelines/$ns/$layer/$name" params={at} search={{ tab: 'starts' }}>
                  Run it after each upload, or every morning
                </Link>
              </li>
              <li>
                <Link to="/lineage" search={{ search: namespace }}>
                  See how the data flows
                </Link>
              </li>
              <li>
                <Link to="/lake/$ns/$layer/$name" params={at}>
                  Travel through the history of the table, or read it with another engine
                </Link>
              </li>
              <li>
                <Link to="/branches">Try a change on a branch of the whole lake</Link>
              </li>
              <li>
                <Link to="/pipelines" search={{ create: NO_SOURCE }}>
                  Write a pipeline of your own
                </Link>
              </li>
            </ul>
          </>
        )}
      </Step>
    </ol>
  )
}

/** A step of the tour. Only the present step and the ones before show their content. */
function Step({
  number,
  at,
  title,
  children,
}: {
  number: number
  at: number
  title: string
  children: ReactNode
}) {
  const state = number < at ? 'done' : number === at ? 'now' : 'later'
  const heading = useRef<HTMLHeadingElement>(null)
  const before = useRef(state)
  // The button of the step before is gone, and the focus with it.
  useEffect(() => {
    if (state === 'now' && before.current !== 'now' && document.activeElement === document.body)
      heading.current?.focus()
    before.current = state
  }, [state])
  return (
    <li data-state={state} aria-current={state === 'now' ? 'step' : undefined}>
      <h2 ref={heading} tabIndex={-1}>
        <span className="tour-number">{state === 'done' ? <Icon name="check" /> : number}</span>
        {title}
      </h2>
      {state !== 'later' && <div className="stack">{children}</div>}
    </li>
  )
}

/** A text with its name above. */
const Code = (props: { label: string; code: string }) => (
  <div>
    <small className="muted">{props.label}</small>
    <CodeBlock {...props} />
  </div>
)

/** A button that acts on the service, and says why it failed. */
function Act({ label, isBusy = false, act }: { label: string; isBusy?: boolean; act: () => Promise<void> }) {
  const [isActing, setActing] = useState(false)
  const [problem, setProblem] = useState<string | null>(null)
  const isWorking = isActing || isBusy
  const perform = async () => {
    setActing(true)
    setProblem(null)
    try {
      await act()
    } catch (error) {
      setProblem(messageOf(error))
    } finally {
      await tourChanged()
      setActing(false)
    }
  }
  return (
    <>
      {problem && <Notice tone="bad">{problem}</Notice>}
      <div>
        <Button kind="primary" disabled={isWorking} onClick={() => void perform()}>
          {isWorking ? 'Working…' : label}
        </Button>
      </div>
    </>
  )
}

/** The newest run of a pipeline, with a link to everything about it. */
function RunLine({ made }: { made: Made | null }) {
  if (made?.run == null) return null
  const { id, status, phase, error } = made.run
  return (
    <>
      <p className="row" role="status">
        <Status status={status} phase={phase} />
        <Link to="/runs/$id" params={{ id }}>
          Look at the run
        </Link>
        {phase && <span className="muted">{phase}</span>}
      </p>
      {status === 'failed' && error !== null && !error.startsWith('testing:') && (
        <Notice tone="bad">{error}</Notice>
      )}
    </>
  )
}
