import { Link, useParams } from '@tanstack/react-router'
import { useState } from 'react'
import { ApiError } from '../../api/errors.ts'
import {
  type Definition,
  exportPath,
  type History,
  type Instance,
  type MachineName,
  type Step,
  useHistory,
  useLiveInstance,
} from '../../api/inspector.ts'
import { Since, Time } from '../../design/clock.tsx'
import { Button } from '../../design/controls.tsx'
import { ErrorState, Waiting } from '../../design/loaded.tsx'
import { Tag } from '../../design/status.tsx'
import { Card, CodeBlock, Empty, Notice } from '../../design/surfaces.tsx'
import { Tabs } from '../../design/tabs.tsx'
import { saveAnswer } from '../../shell/save.ts'
import { RunLog } from '../runs/log.tsx'
import { useLog } from '../runs/use-log.ts'
import { machineOf } from './address.ts'
import { InstanceFacts } from './facts.tsx'
import { InspectorFrame } from './frame.tsx'
import { Lifeline, Stepper, Steps } from './history.tsx'
import { lastLists } from './last-lists.ts'
import { type Selection, useSelection, useStepKeys } from './selection.ts'
import { StatePill, TITLES } from './state.tsx'

/** One instance: why it waits, how long it was in each state, and its history to step through, followed live. */
export default function InstancePage() {
  const { machine: name, id } = useParams({ from: '/inspector/$machine/$id' })
  const machine = machineOf(name)
  const history = useHistory(machine, id)
  const { instance, steps, error } = history
  const connection = useLiveInstance(machine, id, instance !== undefined)
  const selection = useSelection(history)
  useStepKeys(machine, selection)
  const current = steps[selection.index]
  const state = selection.isLatest ? instance?.state : current?.to
  const isGone = error instanceof ApiError && error.status === 404
  const isShown = instance !== undefined && !isGone
  return (
    <InspectorFrame
      machine={machine}
      title={
        isShown
          ? `${instance.namespace}.${instance.layer}.${instance.pipeline}`
          : `${TITLES[machine].slice(0, -1)} ${id.slice(0, 8)}`
      }
      crumbs={<Back machine={machine} />}
      subtitle={isShown ? <About instance={instance} /> : <code>{id}</code>}
      actions={isShown && <Actions instance={instance} steps={steps} step={selection.step} />}
      connection={error === null ? connection : 'ended'}
      chart={({ states }) => ({
        title:
          selection.isLatest || current === undefined
            ? 'Now'
            : `After step ${current.step} of ${history.total}`,
        caption: states.find(({ path }) => path === state)?.description ?? '',
        lit: { active: (isShown && state) || null, taken: (isShown && current?.transition) || null },
        counts: null,
      })}
    >
      {(definition) =>
        isShown ? (
          <Details definition={definition} instance={instance} history={history} selection={selection} />
        ) : (
          <Card>
            {isGone ? (
              <Empty icon="search" title="The instance no longer exists" actions={<Back machine={machine} />}>
                {error.message}
              </Empty>
            ) : error === null ? (
              <Waiting />
            ) : (
              <ErrorState error={error} retry={history.retry} />
            )}
          </Card>
        )
      }
    </InspectorFrame>
  )
}

const Back = ({ machine }: { machine: MachineName }) => (
  <Link to="/inspector/$machine" params={{ machine }} search={lastLists.get(machine) ?? {}}>
    {TITLES[machine]}
  </Link>
)

function About({ instance }: { instance: Instance }) {
  const { machine, id, namespace: ns, layer, pipeline: name, note, pipeline_deleted } = instance
  return (
    <span className="row">
      {note}
      <code id="instance-id">{id}</code>
      {machine === 'run' && (
        <Link to="/runs/$id" params={{ id }}>
          The run
        </Link>
      )}
      {pipeline_deleted ? (
        <Tag>pipeline deleted</Tag>
      ) : (
        <Link to="/pipelines/$ns/$layer/$name" params={{ ns, layer, name }}>
          The pipeline
        </Link>
      )}
    </span>
  )
}

function Actions({
  instance,
  steps,
  step,
}: {
  instance: Instance
  steps: readonly Step[]
  step: number | null
}) {
  const { machine, id, state, live } = instance
  const save = (kind: 'json' | 'svg') =>
    void saveAnswer(exportPath(machine, id, kind, kind === 'svg' ? step : null), `${machine}-${id}.${kind}`)
  return (
    <>
      <span className="row now">
        <StatePill machine={machine} path={state} />
        {live && steps.length > 0 && <Since at={enteredAt(instance, steps)} />}
      </span>
      <Button id="export-json" size="small" icon="download" onClick={() => save('json')}>
        JSON
      </Button>
      <Button id="export-svg" size="small" icon="download" onClick={() => save('svg')}>
        SVG
      </Button>
    </>
  )
}

/** The time at which the present state was entered, as far back as steps are loaded. */
function enteredAt({ state, created_at }: Instance, steps: readonly Step[]): string {
  const before = steps.findLastIndex(({ to }) => to !== state)
  return steps[before + 1]?.at ?? steps.at(-1)?.at ?? created_at
}

type Panel = 'history' | 'log' | 'data'

function Details({
  definition,
  instance,
  history,
  selection,
}: {
  definition: Definition
  instance: Instance
  history: History
  selection: Selection
}) {
  const [panel, setPanel] = useState<Panel>('history')
  const { machine, id } = instance
  const { steps, hasEarlier, total } = history
  const { index, select, move, first, last } = selection
  const panels = [
    ['history', 'History'],
    ...(machine === 'run' ? [['log', 'Log'] as const] : []),
    ['data', 'Data'],
  ] as const
  return (
    <>
      {selection.isLatest && <Waits reasons={instance.waits_for} />}
      <Card>
        <InstanceFacts instance={instance} definition={definition} />
      </Card>
      <Card isFlush>
        <Lifeline machine={machine} steps={steps} isLive={instance.live} index={index} onSelect={select} />
        <Stepper
          machine={machine}
          step={steps[index]}
          total={total}
          isFirst={index <= 0 && !hasEarlier}
          isLast={index >= steps.length - 1}
          first={first}
          last={last}
          move={move}
        />
        <div className="card-body">
          <Tabs label="Panels" tabs={panels} value={panel} onChange={setPanel}>
            <div id="panel">
              {panel === 'history' && (
                <Steps history={history} instance={instance} index={index} onSelect={select} />
              )}
              {panel === 'log' && <LogPanel id={id} />}
              {panel === 'data' && <DataPanel instance={instance} />}
            </div>
          </Tabs>
        </div>
      </Card>
    </>
  )
}

function Waits({ reasons }: { reasons: Instance['waits_for'] }) {
  if (reasons.length === 0) return null
  return (
    <Notice tone="warn">
      <div className="waits">
        <h3>Reasons for waiting</h3>
        <ul>
          {reasons.map(({ code, text, until, run_id }) => (
            <li key={`${code} ${run_id ?? text}`} data-code={code}>
              {text}
              {until !== null && (
                <strong>
                  {' '}
                  <Time at={until} />
                </strong>
              )}
              {run_id !== null && (
                <>
                  {' '}
                  <Link to="/inspector/$machine/$id" params={{ machine: 'run', id: run_id }}>
                    run {run_id.slice(0, 8)}…
                  </Link>
                </>
              )}
            </li>
          ))}
        </ul>
      </div>
    </Notice>
  )
}

const LogPanel = ({ id }: { id: string }) => <RunLog id={id} log={useLog(id)} />

function DataPanel({ instance: { history: _, ...shown } }: { instance: Instance }) {
  return <CodeBlock label="Data" code={JSON.stringify(shown, null, 2)} />
}
