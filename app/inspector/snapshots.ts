import type { Sql } from '../../drizzle/client.ts'
import { pathOf } from '../../machines/advance.ts'
import type { Clock } from '../core/clock.ts'
import type { ReadinessCheck } from '../health/service.ts'
import { snakeCased } from '../wire/wire-names.ts'
import { definitionOf, migrated } from './definitions.ts'
import {
  NEWER_PROGRAM,
  type RunnerState,
  reasonsOfDraft,
  reasonsOfRun,
  reasonsOfTrigger,
  type Waits,
} from './reasons.ts'
import type { MachineName, Snapshot } from './schema.ts'
import { type FoundInstance, STORES } from './store/machines.ts'

/** A runner that does not answer within this time counts as silent. */
const RUNNER_MS = 1_000
/** Requests within this time share one check of the runner. */
const RUNNER_CACHED_MS = 1_000

export interface SnapshotDeps {
  sql: Sql
  clock: Clock
  /** Whether reasons may count runs of other pipelines. False where pipelines are hidden from some callers. */
  disclosesOtherRuns?: boolean
  /** Whether a runner answers; null: runners are switched off. */
  runner: ReadinessCheck | null
}

/** Reads an instance as it is now; null: the instance does not exist. */
export function makeSnapshots({ sql, clock, disclosesOtherRuns = true, runner }: SnapshotDeps) {
  const askRunner = makeRunnerCheck(clock, runner)

  async function waitsOf(found: FoundInstance, state: string): Promise<Waits> {
    if (isNewer(found)) return { reasons: [NEWER_PROGRAM] }
    switch (found.machine) {
      case 'run':
        return reasonsOfRun(sql, { id: found.id, state, disclosesOtherRuns }, askRunner)
      case 'draft':
        return { reasons: reasonsOfDraft(found, state) }
      case 'trigger':
        return { reasons: await reasonsOfTrigger(sql, found, state) }
    }
  }

  return async (name: MachineName, wantedId: string): Promise<Snapshot | null> => {
    const found = await STORES[name].find(sql, wantedId)
    if (found === undefined) return null
    const { machine, id, namespace, layer, pipeline, pipelineId, isPipelineDeleted, note, ...others } = found
    const { createdAt, snapshot, machineVersion, now, ...facts } = others
    const stored = migrated(machine, machineVersion, snapshot) ?? snapshot
    const state = pathOf(stored.value)
    const live = stored.status === 'active'
    const waits = live ? await waitsOf(found, state) : { reasons: [] }
    return {
      machine,
      id,
      state,
      live,
      namespace,
      layer,
      pipeline,
      pipeline_id: pipelineId,
      pipeline_deleted: isPipelineDeleted,
      note,
      created_at: createdAt.toISOString(),
      snapshot: stored,
      machine_version: machineVersion,
      is_newer: isNewer(found),
      facts: { ...snakeCased(facts), ...waits.facts },
      waits_for: waits.reasons,
      now: now.toISOString(),
    }
  }
}

const isNewer = ({ machine, machineVersion }: FoundInstance) => machineVersion > definitionOf(machine).version

function makeRunnerCheck(clock: Clock, runner: ReadinessCheck | null): () => Promise<RunnerState> {
  let latestCheck: { at: number; state: Promise<RunnerState> } | null = null
  return () => {
    if (runner === null) return Promise.resolve('off')
    const now = clock.elapsed()
    if (latestCheck !== null && now - latestCheck.at < RUNNER_CACHED_MS) return latestCheck.state
    const signal = AbortSignal.timeout(RUNNER_MS)
    const late = new Promise<never>((_, reject) =>
      signal.addEventListener('abort', () => reject(signal.reason)),
    )
    const state = Promise.race([runner(signal), late]).then(
      (): RunnerState => 'serving',
      (): RunnerState => 'silent',
    )
    latestCheck = { at: now, state }
    return state
  }
}
