import { assign, initialTransition, type SnapshotFrom, setup } from 'xstate'
import { pathOf } from './advance.ts'
import { makeMigrate } from './migrate.ts'

/** Add a migration step whenever the meaning of a stored snapshot changes. */
export const { version: RUN_MACHINE_VERSION, migrate: migrateRun } = makeMigrate('run', [
  // Version 2 retries failed executions and counts the retries.
  (stored) => ({ ...stored, context: { ...(stored.context as RunContext), retries: 0 } }),
  // Version 3 charges a lost runner to an attempt that executed alone there, and counts lost engines.
  (stored) => ({
    ...stored,
    context: { ...(stored.context as RunContext), lostAlone: 0, lostTogether: 0, lostEngines: 0 },
  }),
  // Version 4 has the state `running.review`, and remembers the change that was reviewed.
  (stored) => ({ ...stored, context: { ...(stored.context as RunContext), proposed: null, approved: null } }),
])

/** A run fails after this many lost runners on which it executed alone, because then the run is the likely cause. */
export const MAX_LOST_ALONE = 3
/**
 * After this many shared losses, a run executes alone, so the next loss shows whether this run is the cause. A shared loss is a
 * runner lost while several attempts executed there. One loss is more often a restart than a hostile run, and isolation costs
 * throughput.
 */
export const LOST_TOGETHER_BEFORE_ALONE = 2
/** Runners that a run may lose for any reason, even before execution. The limit ends every run. */
export const MAX_LOST_RUNNERS = 20
/** Engine processes that may crash or be killed under one run. The next loss fails the run. */
export const MAX_LOST_ENGINES = 3
/** Merge conflicts that a run survives. The next conflict fails the run. */
export const MAX_CONFLICTS = 20

/** The values that guards need for their decisions. */
export interface RunContext {
  /** Number of the open or latest attempt; 0 before the first. */
  attempt: number
  /** Runners lost under the run, for any reason. */
  lostRunners: number
  /** Lost runners on which the run executed alone. These losses count towards the run's failure limit. */
  lostAlone: number
  /** Lost runners on which the run executed beside others. The cause of such losses is unknown. */
  lostTogether: number
  /** Engine processes that crashed or were killed from outside. */
  lostEngines: number
  conflicts: number
  /** Attempts made because the previous attempt had failed. */
  retries: number
  /** Fingerprint of the change that is or was in review; null: no review yet. */
  proposed: string | null
  /** Fingerprint of the approved change. A later attempt with the same change merges without another review. */
  approved: string | null
}

type RunPhase = 'rendering' | 'executing' | 'testing' | 'review' | 'merging' | 'waiting'

export type RunEvent =
  | { type: 'start' }
  | { type: 'accepted'; attempt: number }
  | { type: 'refused'; attempt: number }
  | { type: 'entered'; attempt: number; phase: 'executing' | 'testing' }
  /** `change`: the fingerprint of a change that needs a review; missing or null: the run merges without a review. */
  | { type: 'executed'; attempt: number; isBlocked: boolean; hasChanged: boolean; change?: string | null }
  /** `maxRetries` is the pipeline's setting. It is missing where the setting was not read, which allows no retry. */
  | { type: 'executionFailed'; attempt: number; maxRetries?: number }
  /** `hasBegun`: the runner had begun to execute the attempt. `hasCompany`: other attempts may have executed there too. */
  | { type: 'runnerLost'; attempt: number; hasBegun: boolean; hasCompany: boolean }
  | { type: 'engineLost'; attempt: number }
  | { type: 'merged'; attempt: number }
  | { type: 'conflicted'; attempt: number }
  | { type: 'approved' }
  | { type: 'rejected' }
  /** Nobody has approved or rejected the change in time. */
  | { type: 'reviewExpired' }
  | { type: 'cancelRequested' }
  /** An earlier success archived the upload that requested this run, so nothing is left to do. */
  | { type: 'inputTaken' }
  /** The run has been running for longer than the retention settings allow. */
  | { type: 'timedOut' }

type OfAttempt = Extract<RunEvent, { attempt: number }>

const isCurrent = ({ context, event }: { context: RunContext; event: RunEvent }) =>
  (event as OfAttempt).attempt === context.attempt

/** Whether the attempts of a run must execute alone on their runners. */
export const executesAlone = ({ lostTogether }: Pick<RunContext, 'lostTogether'>): boolean =>
  lostTogether >= LOST_TOGETHER_BEFORE_ALONE

type Losses = Pick<RunContext, 'lostRunners' | 'lostAlone' | 'lostTogether'>

/** Counts a lost runner. An attempt that had not begun cannot be the cause. The cause of a shared loss is unknown. */
function afterLoss(
  { lostRunners, lostAlone, lostTogether }: Losses,
  { hasBegun, hasCompany }: Extract<RunEvent, { type: 'runnerLost' }>,
): Losses {
  const wasAlone = executesAlone({ lostTogether }) || !hasCompany
  return {
    lostRunners: lostRunners + 1,
    lostAlone: lostAlone + (hasBegun && wasAlone ? 1 : 0),
    lostTogether: lostTogether + (hasBegun && !wasAlone ? 1 : 0),
  }
}

/** Transitions of an attempt while a runner works on it, in any phase. */
const whileAttempting = {
  executed: [
    { target: '#run.failed', guard: 'isBlocked', actions: ['closeBranch', 'announce'] },
    { target: '#run.success', guard: 'isUnchanged', actions: ['closeBranch', 'announce'] },
    { target: '#run.running.review', guard: 'needsReview', actions: ['propose', 'openReview'] },
    { target: '#run.running.merging', guard: 'isCurrent', actions: ['mergeBranch'] },
  ],
  executionFailed: [
    { target: '#run.running.waiting', guard: 'mayRetry', actions: ['countRetry', 'closeBranch'] },
    { target: '#run.failed', guard: 'isCurrent', actions: ['closeBranch', 'announce'] },
  ],
  engineLost: [
    { target: '#run.running.waiting', guard: 'mayLoseEngine', actions: ['countLostEngine', 'closeBranch'] },
    { target: '#run.failed', guard: 'isCurrent', actions: ['countLostEngine', 'closeBranch', 'announce'] },
  ],
  // A runner without contact may still be working, so the attempt is cancelled there.
  runnerLost: [
    {
      target: '#run.running.waiting',
      guard: 'mayLoseRunner',
      actions: ['countLostRunner', 'closeBranch', 'cancelAttempt'],
    },
    {
      target: '#run.failed',
      guard: 'isCurrent',
      actions: ['countLostRunner', 'closeBranch', 'cancelAttempt', 'announce'],
    },
  ],
  cancelRequested: { target: '#run.cancelled', actions: ['closeBranch', 'cancelAttempt', 'announce'] },
  timedOut: { target: '#run.failed', actions: ['closeBranch', 'cancelAttempt', 'announce'] },
} as const

/**
 * A run is a pull request for data. It waits, works on a branch, is judged there, and merges or leaves no trace. Effects:
 * openAttempt (fixes branch, base and input), submitAttempt, openReview (releases the runner and keeps the branch), closeBranch,
 * cancelAttempt, mergeBranch, announce.
 */
export const runMachine = setup({
  types: { context: {} as RunContext, events: {} as RunEvent },
  guards: {
    isCurrent,
    isBlocked: ({ context, event }) =>
      isCurrent({ context, event }) && event.type === 'executed' && event.isBlocked,
    isUnchanged: ({ context, event }) =>
      isCurrent({ context, event }) && event.type === 'executed' && !event.hasChanged,
    needsReview: ({ context, event }) =>
      isCurrent({ context, event }) &&
      event.type === 'executed' &&
      (event.change ?? null) !== null &&
      event.change !== context.approved,
    entersExecuting: ({ context, event }) =>
      isCurrent({ context, event }) && event.type === 'entered' && event.phase === 'executing',
    entersTesting: ({ context, event }) =>
      isCurrent({ context, event }) && event.type === 'entered' && event.phase === 'testing',
    mayRetry: ({ context, event }) =>
      isCurrent({ context, event }) &&
      event.type === 'executionFailed' &&
      context.retries < (event.maxRetries ?? 0),
    mayLoseRunner: ({ context, event }) => {
      if (!isCurrent({ context, event }) || event.type !== 'runnerLost') return false
      const { lostRunners, lostAlone } = afterLoss(context, event)
      return lostAlone < MAX_LOST_ALONE && lostRunners <= MAX_LOST_RUNNERS
    },
    mayLoseEngine: ({ context, event }) =>
      isCurrent({ context, event }) && context.lostEngines < MAX_LOST_ENGINES,
    mayConflict: ({ context, event }) => isCurrent({ context, event }) && context.conflicts < MAX_CONFLICTS,
  },
  actions: {
    countAttempt: assign({ attempt: ({ context }) => context.attempt + 1 }),
    countLostRunner: assign(({ context, event }) =>
      event.type === 'runnerLost' ? afterLoss(context, event) : {},
    ),
    countLostEngine: assign({ lostEngines: ({ context }) => context.lostEngines + 1 }),
    countConflict: assign({ conflicts: ({ context }) => context.conflicts + 1 }),
    countRetry: assign({ retries: ({ context }) => context.retries + 1 }),
    propose: assign({
      proposed: ({ event }) => (event.type === 'executed' ? (event.change ?? null) : null),
    }),
    approve: assign({ approved: ({ context }) => context.proposed }),
    openAttempt: () => {},
    submitAttempt: () => {},
    closeBranch: () => {},
    cancelAttempt: () => {},
    openReview: () => {},
    mergeBranch: () => {},
    announce: () => {},
  },
}).createMachine({
  id: 'run',
  context: {
    attempt: 0,
    lostRunners: 0,
    lostAlone: 0,
    lostTogether: 0,
    lostEngines: 0,
    conflicts: 0,
    retries: 0,
    proposed: null,
    approved: null,
  },
  initial: 'pending',
  states: {
    pending: {
      initial: 'waiting',
      states: {
        waiting: {
          on: {
            start: { target: 'starting', actions: ['countAttempt', 'openAttempt', 'submitAttempt'] },
            inputTaken: { target: '#run.success', actions: ['announce'] },
            cancelRequested: { target: '#run.cancelled', actions: ['announce'] },
          },
        },
        starting: {
          on: {
            accepted: { target: '#run.running', guard: 'isCurrent' },
            refused: { target: 'waiting', guard: 'isCurrent', actions: ['closeBranch'] },
            // An attempt that cannot be submitted fails the run at once.
            executionFailed: {
              target: '#run.failed',
              guard: 'isCurrent',
              actions: ['closeBranch', 'announce'],
            },
            runnerLost: [
              {
                target: 'waiting',
                guard: 'mayLoseRunner',
                actions: ['countLostRunner', 'closeBranch', 'cancelAttempt'],
              },
              {
                target: '#run.failed',
                guard: 'isCurrent',
                actions: ['countLostRunner', 'closeBranch', 'cancelAttempt', 'announce'],
              },
            ],
            cancelRequested: {
              target: '#run.cancelled',
              actions: ['closeBranch', 'cancelAttempt', 'announce'],
            },
          },
        },
      },
    },
    running: {
      initial: 'rendering',
      states: {
        // Between two attempts the run stays running and is first in the queue, so no other run of its pipeline starts.
        waiting: {
          on: {
            start: { target: 'rendering', actions: ['countAttempt', 'openAttempt', 'submitAttempt'] },
            inputTaken: { target: '#run.success', actions: ['announce'] },
            cancelRequested: { target: '#run.cancelled', actions: ['announce'] },
            timedOut: { target: '#run.failed', actions: ['announce'] },
          },
        },
        rendering: {
          on: {
            ...whileAttempting,
            // A later attempt begins in `rendering`: the status stays `running`, and `accepted` changes nothing.
            accepted: { target: 'rendering', guard: 'isCurrent' },
            refused: { target: 'waiting', guard: 'isCurrent', actions: ['closeBranch'] },
            entered: [
              { target: 'executing', guard: 'entersExecuting' },
              { target: 'testing', guard: 'entersTesting' },
            ],
          },
        },
        executing: { on: { ...whileAttempting, entered: { target: 'testing', guard: 'entersTesting' } } },
        testing: { on: { ...whileAttempting } },
        // The branch stays open for reviewers. The run no longer needs its runner, and another run of its pipeline may start.
        review: {
          on: {
            approved: { target: 'merging', actions: ['approve', 'mergeBranch'] },
            rejected: { target: '#run.failed', actions: ['closeBranch', 'announce'] },
            reviewExpired: { target: '#run.failed', actions: ['closeBranch', 'announce'] },
            cancelRequested: { target: '#run.cancelled', actions: ['closeBranch', 'announce'] },
          },
        },
        merging: {
          on: {
            merged: { target: '#run.success', guard: 'isCurrent', actions: ['announce'] },
            conflicted: [
              { target: 'waiting', guard: 'mayConflict', actions: ['countConflict', 'closeBranch'] },
              { target: '#run.failed', guard: 'isCurrent', actions: ['closeBranch', 'announce'] },
            ],
            cancelRequested: { target: '#run.cancelled', actions: ['closeBranch', 'announce'] },
            timedOut: { target: '#run.failed', actions: ['closeBranch', 'announce'] },
          },
        },
      },
    },
    success: { type: 'final' },
    failed: { type: 'final' },
    cancelled: { type: 'final' },
  },
})

export type RunSnapshot = SnapshotFrom<typeof runMachine>
export type RunStatus = 'pending' | 'running' | 'success' | 'failed' | 'cancelled'

/** The snapshot of a newly requested run. */
export const newRun = (): RunSnapshot => initialTransition(runMachine)[0]

/** Columns derived from a snapshot, written in the same UPDATE. */
export function runColumns(snapshot: RunSnapshot) {
  const [status, inner = null] = pathOf(snapshot.value).split('.')
  return {
    status: status as RunStatus,
    phase: status === 'running' ? (inner as RunPhase) : null,
    attempt: snapshot.context.attempt,
    waiting: inner === 'waiting',
  }
}

export type TerminalStatus = 'success' | 'failed' | 'cancelled'

export const isTerminal = (status: RunStatus): status is TerminalStatus =>
  status === 'success' || status === 'failed' || status === 'cancelled'
