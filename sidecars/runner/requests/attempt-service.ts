import { timestampFromDate } from '@bufbuild/protobuf/wkt'
import { Code, ConnectError, type ServiceImpl } from '@connectrpc/connect'
import {
  type FollowedAttempt,
  LogLevel,
  type RunnerService,
  RunPhase,
  RunStatus,
  Severity,
  type SubmitPipelineRequest,
} from '../../../proto/gen/sluice/runner/v1/runner_pb.ts'
import { costOnWire } from '../../core/process-usage.ts'
import type { Attempt, Attempts } from '../attempt/attempts.ts'
import { type EventBatch, makeFollowings, type Position, TooMuch } from '../attempt/followings.ts'
import type { AttemptEvent, Line } from '../session/attempt-log.ts'
import type { TestResult } from '../write/quality-gate.ts'

// The methods of RunnerService (proto/sluice/runner/v1/runner.proto) about attempts, whatever the attempts execute.

type AttemptService = Pick<
  ServiceImpl<typeof RunnerService>,
  | 'submitPipeline'
  | 'submitPipelines'
  | 'getRunStatus'
  | 'streamLogs'
  | 'followRuns'
  | 'updateFollowing'
  | 'cancelRun'
>

export function makeAttemptService(attempts: Attempts): AttemptService {
  const { bootId } = attempts
  const followings = makeFollowings(attempts)
  const attemptOf = (handle: string): Attempt => {
    const attempt = attempts.find(handle)
    if (attempt === null)
      throw new ConnectError(
        `unknown attempt ${handle}: the runner has restarted, or the attempt ended long ago`,
        Code.NotFound,
      )
    return attempt
  }
  function submit(request: SubmitPipelineRequest): Attempt {
    checkSubmit(request)
    const attempt = attempts.submit(request)
    if (attempt === null)
      throw new ConnectError(
        'no free slot for another attempt: submit it again later',
        Code.ResourceExhausted,
      )
    return attempt
  }
  function submitOneOf(request: SubmitPipelineRequest) {
    try {
      return { handle: submit(request).handle }
    } catch (error) {
      const { code, rawMessage } = ConnectError.from(error)
      return { handle: '', code, message: rawMessage }
    }
  }
  /** Returns false when the stream cannot follow the attempts. Accepted attempts stay accepted. */
  function tryToFollow(streamId: string, accepted: readonly Position[]): boolean {
    try {
      return followings.add(streamId, accepted)
    } catch (error) {
      if (error instanceof TooMuch) return false
      throw error
    }
  }
  return {
    submitPipeline: (request) => ({
      handle: submit(request).handle,
      bootId,
      ...attempts.slots(),
    }),

    submitPipelines({ requests, streamId }) {
      const results = requests.map(submitOneOf)
      const accepted = results.flatMap(({ handle }) => (handle === '' ? [] : { handle, afterSeq: 0 }))
      return { results, bootId, ...attempts.slots(), isFollowed: tryToFollow(streamId, accepted) }
    },

    getRunStatus: ({ handle }) => factsOf(attemptOf(handle), bootId),

    async *streamLogs({ handle, afterSeq }, { signal }) {
      const attempt = attemptOf(handle)
      for await (const event of attempt.log.follow(Number(afterSeq), signal))
        yield { bootId, ...onWire(event) }
      if (attempt.status !== 'running') yield { bootId, facts: factsOf(attempt, bootId) }
    },

    async *followRuns({ streamId, attempts: followed, replaces }, { signal }) {
      if (streamId === '') throw new ConnectError('stream_id is empty', Code.InvalidArgument)
      const batches = followings.follow(streamId, followed.map(positionOf), { replaces, signal })
      try {
        for await (const batch of batches)
          yield { bootId, news: batch?.map((one) => newsOnWire(one, bootId)) }
      } catch (error) {
        throw asTooMuch(error)
      }
    },

    updateFollowing: ({ streamId, attempts: followed }) => ({
      isOpen: orTooMuch(() => followings.add(streamId, followed.map(positionOf))),
    }),

    async cancelRun({ handle }) {
      return { interrupted: (await attempts.find(handle)?.cancel()) ?? false }
    },
  }
}

const positionOf = ({ handle, afterSeq }: FollowedAttempt) => ({ handle, afterSeq: Number(afterSeq) })

const asTooMuch = (error: unknown) =>
  error instanceof TooMuch ? new ConnectError(error.message, Code.ResourceExhausted) : error

function orTooMuch<Answer>(ask: () => Answer): Answer {
  try {
    return ask()
  } catch (error) {
    throw asTooMuch(error)
  }
}

const newsOnWire = ({ handle, lines, phases, end }: EventBatch, bootId: string) => ({
  handle,
  entries: lines.map(lineOnWire),
  phases: phases.map((phase) => PHASE[phase]),
  facts: end === null || end === 'unknown' ? undefined : factsOf(end, bootId),
  isUnknown: end === 'unknown',
})

const factsOf = ({ status, phase, error, isEngineLost, facts }: Attempt, bootId: string) => ({
  status: STATUS[status],
  phase: PHASE[phase],
  bootId,
  rowsWritten: BigInt(facts.rowsWritten),
  testedCommit: facts.testedCommit,
  tests: facts.tests.map(testOnWire),
  error,
  isEngineLost,
  inputTables: facts.inputTables,
  landingFileIds: facts.landingFileIds,
  archiveLandingZones: facts.archiveLandingZones,
  maxRetries: facts.maxRetries,
  retryDelaySeconds: facts.retryDelaySeconds,
  keepFailedHours: facts.keepFailedHours,
  review: facts.review
    ? {
        change: facts.review.change,
        timeoutHours: facts.review.timeoutHours,
        fourEyes: facts.review.isFourEyes,
      }
    : undefined,
  cost: facts.cost ? costOnWire(facts.cost) : undefined,
})

const STATUS = {
  running: RunStatus.RUNNING,
  completed: RunStatus.COMPLETED,
  failed: RunStatus.FAILED,
  cancelled: RunStatus.CANCELLED,
}
const PHASE = { rendering: RunPhase.RENDERING, executing: RunPhase.EXECUTING, testing: RunPhase.TESTING }
const LEVEL = { debug: LogLevel.DEBUG, info: LogLevel.INFO, warn: LogLevel.WARN, error: LogLevel.ERROR }

function onWire(event: AttemptEvent) {
  switch (event.kind) {
    case 'heartbeat':
      return {}
    case 'phase':
      return { phase: PHASE[event.phase] }
    case 'line':
      return { entry: lineOnWire(event.line) }
  }
}

const lineOnWire = ({ seq, at, level, message }: Line) => ({
  seq: BigInt(seq),
  timestamp: timestampFromDate(at),
  level: LEVEL[level],
  message,
})

export const testOnWire = ({ name, severity, passed, value, durationMs, error, samples }: TestResult) => ({
  name,
  severity: severity === 'warn' ? Severity.WARN : Severity.ERROR,
  passed,
  value,
  durationMs: BigInt(durationMs),
  error,
  samples,
})

function checkSubmit({ runId, attempt, type, lake }: SubmitPipelineRequest): void {
  const problem =
    (runId === '' && 'run_id is empty') ||
    (attempt < 1 && 'attempt must be at least 1') ||
    (type !== 'sql' && type !== 'python' && `type '${type}' is neither sql nor python`) ||
    (lake === undefined && 'lake is missing')
  if (problem) throw new ConnectError(problem, Code.InvalidArgument)
}
