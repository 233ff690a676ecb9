import { Code, ConnectError, type ServiceImpl } from '@connectrpc/connect'
import type { Slots } from '../../../ground/process/slots.ts'
import { CatalogError } from '../../../lake/iceberg/read/client.ts'
import type { PreviewPipelineRequest, QueryService } from '../../../proto/gen/sluice/query/v1/query_pb.ts'
import { EngineEnded, onceMoreIfKilled } from '../../engine/engine-process.ts'
import type { ApiAddresses } from '../../rpc/api-addresses.ts'
import { HttpFailure } from '../../rpc/http.ts'
import { reasonOf } from '../author/wording.ts'
import { limits } from '../core/limits.ts'
import { EnginesBusy } from '../engine/engine-lease.ts'
import { makeRunSlots } from '../engine/engine-leases.ts'
import { InterpreterEnded } from '../interpreter/interpreter.ts'
import { NoPython } from '../interpreter/interpreters.ts'
import { type AttemptResourcesOptions, openAttemptResources } from '../session/attempt-resources.ts'
import { execute } from './execute.ts'
import { prepare } from './prepare.ts'
import { accessOf, type PreviewAnswer } from './preview-report.ts'

// A dry run of a draft. It is rendered and executed as in a run, on main, with a token that can only read. Nothing is written,
// so the query is executed once and only its first rows are returned.

type PreviewPipeline = ReturnType<typeof makePreview>

/** Makes the function that previews pipelines. It throws ConnectError as described in proto/sluice/query/v1/query.proto. */
export function makePreview(options: AttemptResourcesOptions) {
  // Python has its own slots, so that an endless loop in Python does not block previews of SQL.
  const turns = {
    sql: makeRunSlots(limits.previewsAtOnce),
    python: makeRunSlots(limits.pythonPreviewsAtOnce),
  }

  return async function previewPipeline(
    request: PreviewPipelineRequest,
    caller: AbortSignal,
  ): Promise<PreviewAnswer> {
    const { type } = request
    if (type !== 'sql' && type !== 'python')
      throw new ConnectError(`type '${type}' is neither sql nor python`, Code.InvalidArgument)
    const release = await acquireSlot(turns[type], caller)
    const timeout = AbortSignal.timeout(limits.previewMs)
    try {
      const signal = AbortSignal.any([caller, timeout])
      return await onceMoreIfKilled(() => runPreview(options, request, signal), signal)
    } catch (error) {
      if (error instanceof EngineEnded)
        throw new ConnectError(
          `the engine was killed from outside twice while it ran this preview (${error.why}): try again`,
          Code.ResourceExhausted,
        )
      if (error instanceof EnginesBusy) throw new ConnectError(error.message, Code.Unavailable)
      if (timeout.aborted)
        throw new ConnectError(
          `the preview was stopped at its time limit of ${limits.previewMs / 1_000} s`,
          Code.DeadlineExceeded,
        )
      throw error
    } finally {
      release()
    }
  }
}

/** Waits for a slot, and returns the function that releases the slot. */
async function acquireSlot(turns: Slots, caller: AbortSignal): Promise<() => void> {
  const timeout = AbortSignal.timeout(limits.previewWaitMs)
  try {
    return await turns.acquire(AbortSignal.any([caller, timeout]))
  } catch (error) {
    if (!timeout.aborted && !(error instanceof EnginesBusy)) throw error
    const message = `no slot for previews was free within ${limits.previewWaitMs / 1_000} s: try again`
    throw new ConnectError(error instanceof EnginesBusy ? error.message : message, Code.ResourceExhausted)
  }
}

async function runPreview(
  options: AttemptResourcesOptions,
  request: PreviewPipelineRequest,
  signal: AbortSignal,
): Promise<PreviewAnswer> {
  const needsPython = request.type === 'python'
  const resources = await openAttemptResources(options, accessOf(request), signal, { needsPython }).catch(
    (error: unknown) => {
      signal.throwIfAborted()
      const isAboutPython = error instanceof NoPython || error instanceof InterpreterEnded
      throw isAboutPython ? new ConnectError(`python: ${error.message}`, Code.FailedPrecondition) : error
    },
  )
  try {
    return await execute(await prepare(request, resources, signal), options)
  } catch (error) {
    signal.throwIfAborted()
    throw refusalOf(error, resources.directory)
  } finally {
    await resources.clear()
  }
}

function refusalOf(error: unknown, directory: string): unknown {
  if (error instanceof ConnectError || error instanceof EnginesBusy) return error
  // `onceMoreIfKilled` repeats the preview.
  if (error instanceof EngineEnded && error.end === 'killed') return error
  const reason = reasonOf(error)
  if (reason === null) return error
  const isElsewhere =
    error instanceof CatalogError ||
    error instanceof HttpFailure ||
    (error instanceof Error && error.name === 'TimeoutError')
  return new ConnectError(
    reason.replaceAll(`${directory}/`, ''),
    isElsewhere ? Code.Unavailable : Code.FailedPrecondition,
  )
}

/** The only method of QueryService that runners implement. */
export const makePreviewService = (
  previewPipeline: PreviewPipeline,
  apis: ApiAddresses,
): Partial<ServiceImpl<typeof QueryService>> => ({
  previewPipeline: async (request, { signal }) =>
    previewPipeline({ ...request, lake: apis.checked(accessOf(request)) }, signal),
})
