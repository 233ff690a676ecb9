// A request for a run that came with an Idempotency-Key: in a transaction of its own, since the key's row and the run's are one fact.
import type { Sql } from '../../drizzle/client.ts'
import { clientTrace } from '../../proto/trace.ts'
import type { NewId, RunId } from '../core/ids.ts'
import { answerOnce, type IdempotencyKey } from '../http/idempotency.ts'
import type { CreateRun, RunAccepted } from './schema.ts'
import { insertRun, type NewRun } from './store.ts'

/** What a pipeline's runs execute now. */
type Runnable = Pick<NewRun, 'pipelineId' | 'pipelineType' | 'versionNumber' | 'pins' | 'landingZones'>

export interface OnceDeps {
  sql: Sql
  newId: NewId
  /** The published version's files, or the draft's; 404 when there is no such pipeline. */
  runnable(path: { namespace: string; layer: string; name: string }): Promise<Runnable>
  /** Hints for the dispatcher on this replica; the sweep finds what a lost one missed. */
  nudge(about: 'runRequested' | 'outbox'): void
}

/** Answers as `request` does, with the run of the first request under the key; null: the pipeline takes no run now. */
export const makeRequestOnce =
  ({ sql, newId, runnable, nudge }: OnceDeps) =>
  async (
    { namespace, layer, pipeline, trigger }: CreateRun,
    key: IdempotencyKey,
  ): Promise<RunAccepted | null> => {
    const outcome = await answerOnce(sql, key, {
      prepare: () => runnable({ namespace, layer, name: pipeline }),
      async perform(tx, target) {
        const id = newId() as RunId
        const isRequested = await insertRun(tx, {
          id,
          namespace,
          layer,
          pipeline,
          trigger,
          ...clientTrace(),
          ...target,
        })
        return isRequested ? { status: 202, body: { run_id: id, status: 'pending' as const } } : null
      },
    })
    if (outcome === null) return null
    if (!outcome.isRepeat) nudge('runRequested')
    return outcome.answer.body
  }
