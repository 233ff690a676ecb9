// One attempt by the calls that every runner has: submitted alone, followed on a stream of its own.
import { limits } from '../../app/core/limits.ts'
import { failureOf, type Remote, type RunnerClient } from '../../app/rpc/clients.ts'
import type { OpenAttempt } from '../../app/runs/attempts.ts'
import type { GetRunStatusResponse } from '../../proto/gen/sluice/runner/v1/runner_pb.ts'
import { AttemptReport, LOST, type ReportDeps, verdictOf } from './attempt-report.ts'

export interface FollowDeps extends ReportDeps {
  runner: Remote<RunnerClient>
  /** Aborted when this replica stops following; the attempt goes on. */
  signal: AbortSignal
}

/** Between two tries. */
export const RETRY_MS = 100
/** A timer this late has slept with its process, and this much longer is waited then. */
export const LATE_MS = 500
export const GRACE_MS = 2_000

/** Resolves when the attempt has ended, is lost, or is followed no more. */
export async function followAttempt(attempt: OpenAttempt, deps: FollowDeps): Promise<void> {
  const report = new AttemptReport(attempt, deps)
  const refusal = report.refusal()
  if (refusal !== null) return report.failed(refusal)
  const boot = attempt.runnerBoot ?? (await submit(report, deps))
  if (boot !== null) await readOn(report, boot, deps)
}

/** Follows an attempt that this start of the runner has taken, from the last line heard on. */
export async function readOn(
  report: AttemptReport,
  boot: string,
  deps: Pick<FollowDeps, 'runner' | 'signal'>,
) {
  if (deps.signal.aborted) return
  const facts = await readToEnd(report, boot, deps)
  if (facts === null) return
  if ('lost' in facts) report.lost(facts.lost)
  else report.ended(facts)
}

/** The runner's boot id, or null when it did not take the attempt. An unclear answer is retried on the same runner only. */
async function submit(report: AttemptReport, deps: FollowDeps): Promise<string | null> {
  const giveUpAt = performance.now() + limits.runnerSilenceMs
  while (!deps.signal.aborted) {
    try {
      const { bootId, ...room } = await deps.runner.service.submitPipeline(report.request(), {
        signal: AbortSignal.any([deps.signal, AbortSignal.timeout(limits.runnerSilenceMs)]),
      })
      report.accepted(bootId, room)
      return bootId
    } catch (error) {
      if (deps.signal.aborted) return null
      const failure = failureOf(error)
      if (failure === 'noRoom' || failure === 'unreachable') {
        report.refused(failure)
        return null
      }
      if (performance.now() > giveUpAt) {
        report.lost(LOST.unclear)
        return null
      }
      await pause(RETRY_MS, deps.signal)
    }
  }
  return null
}

/** Facts of an attempt that has ended, why it is lost, or null when it is followed no more. */
async function readToEnd(
  report: AttemptReport,
  boot: string,
  deps: Pick<FollowDeps, 'runner' | 'signal'>,
): Promise<GetRunStatusResponse | { lost: string } | null> {
  const { handle } = report
  let heardAt = performance.now()
  let failures = 0
  while (!deps.signal.aborted) {
    // Silence ends a stream as surely as an error does.
    const silence = new AbortController()
    const silenceTimer = () => setTimeout(() => silence.abort(), limits.runnerSilenceMs)
    let timer = silenceTimer()
    let hasEnded = false
    let told: GetRunStatusResponse | undefined
    try {
      const signal = AbortSignal.any([deps.signal, silence.signal])
      const afterSeq = BigInt(report.lastLine)
      for await (const message of deps.runner.service.streamLogs({ handle, afterSeq }, { signal })) {
        heardAt = performance.now()
        clearTimeout(timer)
        timer = silenceTimer()
        if (message.bootId !== '' && message.bootId !== boot) return { lost: LOST.restarted }
        report.entered(message.phase)
        if (message.entry !== undefined) report.said(message.entry)
        told = message.facts
      }
      hasEnded = true
      const facts =
        told ??
        (await deps.runner.service.getRunStatus(
          { handle },
          { signal: AbortSignal.any([deps.signal, AbortSignal.timeout(limits.runnerSilenceMs)]) },
        ))
      const verdict = verdictOf(facts, boot)
      if (verdict === 'ended') return facts
      if (verdict !== 'running') return verdict
      failures = 0
    } catch (error) {
      if (deps.signal.aborted) return null
      const failure = failureOf(error)
      if (failure === 'unknownHandle') return { lost: LOST.restarted }
      if (failure === 'unreachable') report.deps.onUnreachable()
      if (hasEnded && ++failures >= limits.factsRetries) return { lost: LOST.noFacts }
      const silentMs = performance.now() - heardAt
      // Longer than the timer was set for: it is this process that has paused, so the runner gets another moment.
      if (silentMs > limits.runnerSilenceMs + LATE_MS)
        heardAt = performance.now() - limits.runnerSilenceMs + GRACE_MS
      else if (silentMs > limits.runnerSilenceMs - RETRY_MS) return { lost: LOST.silent }
    } finally {
      clearTimeout(timer)
    }
    await pause(RETRY_MS, deps.signal)
  }
  return null
}

/** Resolves after so long, or when the signal is aborted. */
export const pause = (ms: number, signal: AbortSignal) =>
  new Promise<void>((resolve) => {
    if (signal.aborted) return resolve()
    const done = () => {
      clearTimeout(timer)
      signal.removeEventListener('abort', done)
      resolve()
    }
    const timer = setTimeout(done, ms)
    signal.addEventListener('abort', done)
  })
