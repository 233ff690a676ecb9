import { tableKey } from '../../../ground/names.ts'
import { span } from '../../../ground/telemetry/spans.ts'
import type { TableChange } from '../../../lake/iceberg/write/result-write.ts'
import { AuthorError } from '../../../lake/pipeline/author-error.ts'
import { since, sized } from '../../core/amounts.ts'
import { type Cost, costOfAll } from '../../core/process-usage.ts'
import { EngineEnded } from '../../engine/engine-process.ts'
import { SparkLost } from '../../spark/failure.ts'
import { reasonOf } from '../author/wording.ts'
import { InterpreterEnded } from '../interpreter/interpreter.ts'
import { NoPython } from '../interpreter/interpreters.ts'
import {
  type AttemptResources,
  type AttemptResourcesOptions,
  openAttemptResources,
} from '../session/attempt-resources.ts'
import { commitResult, type StoredResult, storeResult } from '../write/table-write.ts'
import { AttemptLostEngine, type Execute, type ExecutionContext } from './attempts.ts'
import { type ExecuteOptions, execute } from './execute.ts'
import { judge } from './judge.ts'
import { NeedsLargerEngine } from './larger-engine.ts'
import { inputsOf, isUploadArchived, lakeOf, type RenderedAttempt, render } from './render.ts'
import { noteReview } from './review.ts'
import { performSpark } from './spark-attempt.ts'
import { performView } from './view-attempt.ts'

// One attempt, from its pinned files to its facts: render, execute, commit once to the branch, test the branch.

type AttemptExecutionOptions = AttemptResourcesOptions & ExecuteOptions

/** Makes the function that executes attempts. It throws AuthorError and the signal's reason. */
export function makeAttemptExecution(options: AttemptExecutionOptions): Execute {
  return async function executeAttempt(context: ExecutionContext) {
    const needsPython = context.request.type === 'python'
    let resources = await openAttemptResources(options, lakeOf(context.request), context.signal, {
      needsPython,
    }).catch((error: unknown) => {
      context.signal.throwIfAborted()
      const isAboutPython = error instanceof NoPython || error instanceof InterpreterEnded
      throw isAboutPython ? new AuthorError(error.message, { where: 'python', cause: error }) : error
    })
    try {
      let spent: Cost[] = []
      try {
        await perform(context, resources, options)
      } catch (error) {
        if (!(error instanceof NeedsLargerEngine)) throw error
        const [why] = (reasonOf(error.cause) ?? String(error.cause)).split('\n')
        context.log.write(
          'warn',
          `DuckDB lacks memory, so ${resources.sparkEngine?.name} executes the attempt again: ${why}`,
        )
        spent = [resources.cost()]
        resources = await resources.reopen(context.signal)
        context.facts.landingFileIds.length = 0
        await perform(context, resources, options, error)
      } finally {
        noteCost(context, costOfAll([...spent, resources.cost()]))
      }
    } catch (error) {
      await resources.clear()
      context.signal.throwIfAborted()
      throw failureOf(error, resources)
    }
    return { gone: resources.clear() }
  }
}

/** Runs the phases of an attempt in order. */
async function perform(
  context: ExecutionContext,
  resources: AttemptResources,
  options: ExecuteOptions,
  /** Set if Spark executes the attempt instead of DuckDB. */
  larger: NeedsLargerEngine | null = null,
): Promise<void> {
  const { request, facts, enter, log } = context
  const started = performance.now()
  resources.engine.onProgress = ({ percent, ...cost }) => {
    const share = percent === null ? 'still running' : `${Math.floor(percent)} % of the input read`
    log.write('info', `${share} after ${since(started)}: ${moved(cost)}`)
  }

  enter('rendering')
  const attempt = await span('render', {}, () => render(context, resources, larger !== null))
  if (isUploadArchived(attempt)) return
  facts.inputTables = inputsOf(attempt).map(({ name }) => tableKey(name))

  enter('executing')
  if (attempt.config.materialized === 'view') return performView(attempt)
  if (attempt.draft.dialect.engine === 'spark') return performSpark(attempt, larger?.columns)
  const { change, opened } = await span('execute', {}, () => execute(attempt, options))
  const stored = store(attempt, change)
  // The tests read the very files that are being committed. `judge` is called first, so that the engine gets its work first.
  const [tested, committed] = await Promise.allSettled([
    span('test', {}, () => judge(attempt, stored, opened)),
    stored === null ? '' : span('commit', {}, () => commit(attempt, stored)),
  ])
  if (committed.status === 'rejected') throw committed.reason
  if (tested.status === 'rejected') throw tested.reason

  facts.rowsWritten = change.rowsWritten
  facts.testedCommit = committed.value
  facts.tests = tested.value
  await noteReview(attempt)
  log.write('info', `attempt ${request.attempt} done in ${since(started)}`)
}

function noteCost({ facts, log }: ExecutionContext, cost: Cost): void {
  // The system does not count, or the engine never started.
  if (cost.peakMemoryBytes === 0) return
  facts.cost = cost
  log.write('info', `cost: ${moved(cost)}`)
}

const moved = ({ cpuSeconds, bytesRead, bytesWritten, peakMemoryBytes }: Cost) =>
  `${cpuSeconds.toFixed(2)} CPU s, ${sized(bytesRead)} read, ${sized(bytesWritten)} written, ${sized(peakMemoryBytes)} peak memory`

/** Null: the result changes nothing. */
function store({ context, resources }: RenderedAttempt, change: TableChange): StoredResult | null {
  if (change.operation !== null) return storeResult(change, resources.lake)
  context.log.write('info', 'no rows to write: the table stays as it is')
  return null
}

/** Returns the id of the commit. */
async function commit(
  { context, resources, target }: RenderedAttempt,
  stored: StoredResult,
): Promise<string> {
  const started = performance.now()
  const { name, table } = target
  const id = await commitResult(stored, { name, table, runId: context.request.runId }, resources.lake)
  context.log.write('info', `committed to the run's branch in ${since(started)}`)
  return id
}

/** Returns the error for the author of the pipeline, or the unchanged error for a fault of the service. */
function failureOf(error: unknown, { directory }: AttemptResources): unknown {
  const reason = reasonOf(error)
  if (reason === null) return error
  const isLost = error instanceof SparkLost || (error instanceof EngineEnded && error.end !== 'ordered')
  const Failure = isLost ? AttemptLostEngine : AuthorError
  // The author does not need the local directory of the attempt.
  return new Failure(reason.replaceAll(`${directory}/`, ''), { where: '', cause: error })
}
