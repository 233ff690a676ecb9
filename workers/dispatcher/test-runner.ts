// A runner over real HTTP whose attempts execute a script of the test. It uses the real service without an engine.
import type { ServiceImpl } from '@connectrpc/connect'
import { AuthorError } from '../../lake/pipeline/author-error.ts'
import { RunnerService, type SubmitPipelineRequest } from '../../proto/gen/sluice/runner/v1/runner_pb.ts'
import { serveConnect } from '../../sidecars/rpc/connect.ts'
import {
  AttemptLostEngine,
  type Attempts,
  type Execute,
  makeAttempts,
  type Facts as RealFacts,
} from '../../sidecars/runner/attempt/attempts.ts'
import { makeAttemptService } from '../../sidecars/runner/requests/attempt-service.ts'

/** The result of an attempt. A script that returns a promise keeps the attempt executing until it resolves. */
export interface Facts extends Partial<RealFacts> {
  /** The attempt fails with this error. */
  error?: string
  /** The attempt fails because its engine was killed. */
  isEngineLost?: boolean
}

export interface ScriptedRunner {
  url: string
  submitted: SubmitPipelineRequest[]
  /** The number of attempts in each `SubmitPipelines` call. */
  batches: number[]
  cancelled: string[]
  /** Simulates a restart of the runner process, which loses all its attempts. */
  reboot(): void
  stop(): Promise<void>
}

export type Script = (request: SubmitPipelineRequest, signal: AbortSignal) => Promise<Facts> | Facts

/** More attempts than any test starts at once. */
const CONCURRENCY = 100

/** The attempts of one runner process. */
export const attemptsThat = (execute: Execute, concurrency = CONCURRENCY) =>
  makeAttempts({ concurrency, seconds: 3_600, log: { info() {}, warn() {}, error() {} }, execute })

export const serveRunner = (service: Partial<ServiceImpl<typeof RunnerService>>, port = 0) =>
  serveConnect({
    host: '127.0.0.1',
    admit: null,
    port,
    services: [RunnerService],
    isServing: () => true,
    readMaxBytes: 1_000_000,
    register: (router) => router.service(RunnerService, service),
  })

/** `onSubmit` may throw ConnectError(ResourceExhausted) to refuse an attempt. `onCancel` may throw a ConnectError, too. */
export function startScriptedRunner(
  script: Script,
  onSubmit: (request: SubmitPipelineRequest) => void = () => {},
  { port = 0, onCancel = () => {} }: { port?: number; onCancel?: (handle: string) => void } = {},
): ScriptedRunner {
  const submitted: SubmitPipelineRequest[] = []
  const cancelled: string[] = []
  const batches: number[] = []

  const execute: Execute = async ({ request, signal, facts, log, enter }) => {
    enter('executing')
    log.write('info', 'executing')
    const stopped = new Promise<never>((_, reject) =>
      signal.addEventListener('abort', () => reject(signal.reason)),
    )
    const { error, isEngineLost, ...found } = await Promise.race([script(request, signal), stopped])
    Object.assign(facts, found)
    if (error !== undefined) throw new (isEngineLost ? AttemptLostEngine : AuthorError)(error)
    return { gone: Promise.resolve() }
  }

  /** Starts a runner process. */
  function boot() {
    const real = attemptsThat(execute)
    const attempts: Attempts = {
      ...real,
      submit(request) {
        onSubmit(request)
        if (real.find(`${request.runId}:${request.attempt}`) === null) submitted.push(request)
        // Without `isAlone`, other attempts never delay this one, so the count of attempts is deterministic.
        return real.submit({ ...request, isAlone: false })
      },
    }
    return { service: makeAttemptService(attempts), ended: new AbortController() }
  }
  let current = boot()

  const server = serveRunner(
    {
      submitPipelines(request, context) {
        batches.push(request.requests.length)
        return current.service.submitPipelines(request, context)
      },
      followRuns(request, context) {
        const signal = AbortSignal.any([context.signal, current.ended.signal])
        return current.service.followRuns(request, { ...context, signal })
      },
      updateFollowing: (request, context) => current.service.updateFollowing(request, context),
      cancelRun(request, context) {
        onCancel(request.handle)
        cancelled.push(request.handle)
        return current.service.cancelRun(request, context)
      },
    },
    port,
  )
  return {
    url: server.url,
    submitted,
    cancelled,
    batches,
    reboot() {
      current.ended.abort()
      current = boot()
    },
    stop: () => server.stop(0),
  }
}
