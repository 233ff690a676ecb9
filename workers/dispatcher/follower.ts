// Follows attempts at their runners: one stream for each runner, one report for each attempt.
import { handleOf, type OpenAttempt } from '../../app/runs/service.ts'
import { AttemptReport, type ReportDeps } from './attempt-report.ts'
import type { Ender } from './ender.ts'
import { RunnerStream } from './runner-stream.ts'
import type { Runners } from './runners.ts'

interface FollowerDeps {
  runners: Runners
  ender: Pick<Ender, 'report' | 'appendLine' | 'stored'>
  /** Token and addresses with which the attempt reaches the lake. */
  lakeAccess(attempt: OpenAttempt): ReportDeps['lake']
  /** Called when a runner may have a free slot for another attempt. */
  onSlotFree(): void
  /** Called with the cost of an attempt that has ended. */
  onCost: ReportDeps['onCost']
  onError(attempt: OpenAttempt, error: unknown): void
  /** Aborted when this replica stops following. */
  signal: AbortSignal
}

export interface Follower {
  /** Submits a new attempt and follows it to its end. `hasSlot`: the caller acquired a runner slot for it. */
  follow(attempt: OpenAttempt, options?: { hasSlot: boolean }): void
  isFollowed(handle: string): boolean
  /** The number of followed attempts. */
  count(): number
}

export function makeFollower(deps: FollowerDeps): Follower {
  const { runners, ender, onSlotFree, onError } = deps
  const following = new Set<string>()
  const streamTo = makeStreams(deps)

  function follow(attempt: OpenAttempt, { hasSlot } = { hasSlot: false }) {
    const handle = handleOf(attempt.runId, attempt.attempt)
    if (following.has(handle)) return
    following.add(handle)
    const url = attempt.runnerUrl
    let holdsSlot = hasSlot
    const report = new AttemptReport(attempt, {
      lake: deps.lakeAccess(attempt),
      report: ender.report,
      appendLine: ender.appendLine,
      onAccepted(slots) {
        if (runners.accepted(url, slots)) onSlotFree()
      },
      onRefused() {
        runners.refused(url, holdsSlot)
        holdsSlot = false
      },
      onUnreachable: () => runners.isDown(url),
      onCost: deps.onCost,
    })
    readToEnd(report)
      .catch((error) => onError(attempt, error))
      .finally(() => {
        following.delete(handle)
        if (holdsSlot) runners.release(url)
        onSlotFree()
      })
  }

  async function readToEnd(report: AttemptReport) {
    const refusal = report.refusal()
    if (refusal !== null) return report.failed(refusal)
    const { stream, release } = streamTo(report.attempt.runnerUrl)
    await stream.follow(report).finally(release)
  }

  return { follow, isFollowed: (handle) => following.has(handle), count: () => following.size }
}

/** Streams by runner address. Configured runners have a permanent stream, others only while attempts need it. */
function makeStreams({ runners, ender, signal }: FollowerDeps) {
  const { stored } = ender
  const permanent = new Map(
    runners.remotes.map((runner) => [runner.url, new RunnerStream({ runner, stored, signal })]),
  )
  const temporaries = new Map<string, { stream: RunnerStream; users: number; end: AbortController }>()

  function openTemporary(url: string) {
    const end = new AbortController()
    const runner = runners.remoteAt(url)
    const stream = new RunnerStream({ runner, stored, signal: AbortSignal.any([signal, end.signal]) })
    const temporary = { stream, users: 0, end }
    temporaries.set(url, temporary)
    return temporary
  }

  return (url: string): { stream: RunnerStream; release(): void } => {
    const stream = permanent.get(url)
    if (stream !== undefined) return { stream, release() {} }
    const shared = temporaries.get(url) ?? openTemporary(url)
    shared.users += 1
    return {
      stream: shared.stream,
      release() {
        shared.users -= 1
        if (shared.users > 0) return
        temporaries.delete(url)
        shared.end.abort()
      },
    }
  }
}
