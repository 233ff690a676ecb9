import { Type as t } from '@sinclair/typebox'
import { documentedAs } from '../core/documented.ts'
import { AnyObject, Instant, Layer, literals, nullable, Uuid } from '../core/names.ts'
import { numberText, PageQuery } from '../core/pagination.ts'
import { eventsOf, StreamError } from '../wire/event-schema.ts'

/** Maximum number of history steps in one answer. */
export const STEPS_MAX = 500

export const MACHINE_NAMES = ['run', 'draft', 'trigger'] as const
export type MachineName = (typeof MACHINE_NAMES)[number]

const Machine = literals(MACHINE_NAMES, {
  title: 'Machine',
  description: 'The state machine',
  examples: ['run'],
})

const State = t.String({ description: 'Dotted path of a state', examples: ['running.executing'] })

const StateDefinition = t.Object(
  {
    path: State,
    name: t.String(),
    parent: nullable(t.String()),
    kind: literals(['atomic', 'compound', 'final'], { title: 'StateKind' }),
    initial: t.Boolean({
      description: 'Whether this state is entered when its parent, or the machine, is entered',
    }),
    description: t.String(),
  },
  { title: 'StateDefinition' },
)
export type StateDefinition = typeof StateDefinition.static
const TransitionDefinition = t.Object(
  {
    id: t.String(),
    event: t.String(),
    from: State,
    to: State,
    enters: t.String({ description: 'The innermost state that the transition enters' }),
    guard: nullable(t.String()),
    updates: t.Array(t.String(), { description: 'Names of the changes to the context of the machine' }),
    effects: t.Array(t.String(), {
      description: 'Names of the effects that the transition requests, in order',
    }),
  },
  { title: 'TransitionDefinition' },
)
export type TransitionDefinition = typeof TransitionDefinition.static
const DefinitionBody = t.Object(
  {
    machine: Machine,
    version: t.Integer(),
    summary: t.String(),
    initial: State,
    states: t.Array(StateDefinition),
    transitions: t.Array(TransitionDefinition),
  },
  { title: 'MachineDefinition' },
)
export type Definition = typeof DefinitionBody.static
export const Definitions = t.Object(
  { machines: t.Array(DefinitionBody), total: t.Integer() },
  { title: 'MachineList' },
)

export const MachinePath = t.Object({ machine: Machine })
export const InstancePath = t.Object({ machine: Machine, id: Uuid })

const Detail = literals(['full', 'events', 'states'], {
  title: 'DrawingDetail',
  description:
    'The labels of arrows. full: event, guard and effects; events: event and guard; states: none. Default full.',
})
export type Detail = typeof Detail.static
export const DrawingQuery = t.Object({
  active: t.Optional(t.String({ description: 'Path of the state to highlight' })),
  taken: t.Optional(t.String({ description: 'Id of the transition to highlight' })),
  counts: t.Optional(t.String({ description: '1: shows the number of instances in each state' })),
  detail: t.Optional(Detail),
  style: t.Optional(
    literals(['inline', 'none'], {
      title: 'DrawingStyle',
      description:
        'inline: the drawing contains its styles; none: the page supplies the styles. Default inline.',
    }),
  ),
})
export type DrawingQuery = typeof DrawingQuery.static

export const InstanceQuery = t.Object({
  namespace: t.Optional(t.String({ description: 'Name of a namespace' })),
  layer: t.Optional(Layer),
  pipeline: t.Optional(t.String({ description: 'Name of a pipeline' })),
  state: t.Optional(
    t.String({
      description: 'Path of a state; a compound state includes the states inside it',
      examples: ['running'],
    }),
  ),
  q: t.Optional(
    t.String({
      maxLength: 200,
      description: 'The beginning of an id, or a part of namespace.layer.pipeline',
    }),
  ),
  ...PageQuery.properties,
})
export type InstanceQuery = typeof InstanceQuery.static

export const Listed = t.Object(
  {
    id: Uuid,
    state: State,
    live: t.Boolean({ description: 'Whether the instance is not in a final state' }),
    namespace: t.String(),
    layer: documentedAs(t.String(), Layer),
    pipeline: t.String(),
    note: t.String({
      description: 'The cause of a run, the type of a trigger, or the published version of a draft',
    }),
    attempt: nullable(t.Integer({ description: 'Number of attempts of a run; null for other machines' })),
    created_at: Instant,
    moved_at: nullable(
      t.String({
        format: 'date-time',
        description: 'Time of the latest transition; null if retention has removed it',
      }),
    ),
    duration_ms: nullable(
      t.Integer({ description: 'Duration of an ended run in milliseconds; null for other instances' }),
    ),
  },
  { title: 'ListedInstance' },
)
export type Listed = typeof Listed.static

export const Counts = t.Record(
  t.String(),
  t.Object({ count: t.Integer(), more: t.Boolean() }, { title: 'StateCount' }),
  {
    title: 'StateCounts',
    description: 'Number of instances by state. `more`: counting stopped at its limit, so there may be more.',
  },
)
export type Counts = typeof Counts.static

export const Instances = t.Object(
  {
    instances: t.Array(Listed),
    total: t.Integer(),
    total_is_exact: t.Boolean({ description: 'False: counting stopped at its limit, so there may be more' }),
    counts: Counts,
    now: Instant,
  },
  { title: 'InstanceList' },
)

export const Reason = t.Object(
  {
    code: t.String({ examples: ['older_runs'] }),
    text: t.String(),
    until: nullable(Instant),
    run_id: nullable(Uuid),
  },
  { title: 'Reason' },
)
export type Reason = typeof Reason.static

export const Snapshot = t.Object(
  {
    machine: Machine,
    id: Uuid,
    state: State,
    live: t.Boolean(),
    namespace: t.String(),
    layer: documentedAs(t.String(), Layer),
    pipeline: t.String(),
    pipeline_id: Uuid,
    pipeline_deleted: t.Boolean(),
    note: t.String(),
    created_at: Instant,
    snapshot: t.Object(
      {
        value: t.Unknown(),
        context: t.Unknown(),
        status: documentedAs(
          t.String(),
          literals(['active', 'done', 'error', 'stopped'], { title: 'SnapshotStatus' }),
        ),
      },
      { title: 'MachineSnapshot' },
    ),
    machine_version: t.Integer(),
    is_newer: t.Boolean({
      description: 'A newer version of the service wrote this instance; this version does not change it',
    }),
    facts: AnyObject,
    waits_for: t.Array(Reason),
    now: Instant,
  },
  { title: 'Snapshot' },
)
export type Snapshot = typeof Snapshot.static

export const Step = t.Object(
  {
    id: t.Integer({ description: 'Id of the step in the history; 0 for a creation that left no row' }),
    step: t.Integer({ description: 'Number of the step among the kept steps, from 1' }),
    at: Instant,
    event: t.String(),
    from: t.String(),
    to: State,
    effects: t.Array(t.String()),
    cause: t.String(),
    transition: nullable(
      t.String({
        description:
          'Id of the transition in the definition; null if this version of the machine has no such transition',
      }),
    ),
    duration_ms: nullable(
      t.Integer({ description: 'Milliseconds until the next step; null for the latest step' }),
    ),
  },
  { title: 'Step' },
)
export type Step = typeof Step.static

export const History = t.Object(
  {
    steps: t.Array(Step, { description: 'Oldest first' }),
    total: t.Integer(),
    is_whole: t.Boolean({ description: 'False: retention has removed older steps' }),
  },
  { title: 'History' },
)
export type History = typeof History.static

/** The id of a step in a query, which is text. */
const stepId = (description: string) =>
  documentedAs(
    t.String({ pattern: '^\\d{1,15}$' }),
    t.Integer({ minimum: 0, maximum: 999_999_999_999_999, description }),
  )

export const HistoryQuery = t.Object({
  limit: t.Optional(
    numberText({
      minimum: 1,
      maximum: STEPS_MAX,
      description: `Number of steps; default and maximum ${STEPS_MAX}`,
    }),
  ),
  before: t.Optional(stepId('Only steps before the step with this id')),
})
export const InstanceBody = t.Object({ ...Snapshot.properties, history: History }, { title: 'Instance' })

export const FollowQuery = t.Object({
  after: t.Optional(
    stepId('Only steps after the step with this id. Default: the step in Last-Event-ID, else all steps.'),
  ),
})

export const ExportBody = t.Object(
  { definition: DefinitionBody, instance: Snapshot, history: History },
  { title: 'InstanceExport' },
)
export const ExportQuery = t.Object({
  step: t.Optional(stepId('Id of the step to show; default the latest step')),
})

/** Events of `/instances/{id}/events`. */
export const InstanceEvents = eventsOf({
  transition: Step,
  snapshot: Snapshot,
  gone: StreamError,
  error: StreamError,
})
/** Events of `/{machine}/events`. */
export const ListEvents = eventsOf({
  changed: t.Object({ machine: Machine }, { title: 'ListChanged' }),
})
