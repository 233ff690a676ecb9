// Retention settings, and requests to the reaper. workers/reaper/reaper.ts contains the reaper itself.
import type { Db } from '../../drizzle/client.ts'
import { effectiveRetention } from '../../machines/retention.ts'
import type { Background } from '../core/background.ts'
import { unavailable } from '../core/errors.ts'
import { noPipeline, type PipelineRef } from '../core/pipeline-ref.ts'
import { camelCased, snakeCased } from '../wire/wire-names.ts'
import type * as Wire from './schema.ts'
import {
  changeRetention,
  lastTick,
  overridesOf,
  replaceOverrides,
  systemRetention,
} from './store/settings.ts'

export interface RetentionDeps {
  db: Db
  /** Rejects if the tick fails. Null: the reaper is switched off. */
  reaper: Background['reaper']
}

export type RetentionService = ReturnType<typeof makeRetentionService>

export function makeRetentionService({ db, reaper }: RetentionDeps) {
  async function status(): Promise<Wire.ReaperStatus> {
    const { isOnly: _, lastRunAt, updatedAt, ...counts } = await lastTick(db)
    return {
      ...snakeCased(counts),
      last_run_at: lastRunAt?.toISOString() ?? null,
      updated_at: updatedAt.toISOString(),
    }
  }

  return {
    config: async (): Promise<Wire.RetentionConfig> => snakeCased(await systemRetention(db)),

    async update(change: Wire.UpdateRetentionConfig) {
      const config = snakeCased(await changeRetention(db, camelCased(change)))
      return { ...config, config }
    },

    status,

    /** Performs a complete tick of the reaper, or a dry run. A tick that is already under way does not count. */
    async run({ dry_run: isDry = false }: { dry_run?: boolean }): Promise<Wire.ReaperRun> {
      if (reaper === null) throw unavailable('the reaper')
      const result = await (isDry ? reaper.dryRun() : reaper.run()).catch((cause) => {
        throw unavailable('the reaper', cause)
      })
      return { ...(await status()), ...result }
    },

    async ofPipeline(ref: PipelineRef): Promise<Wire.PipelineRetention> {
      const [system, overrides] = await Promise.all([systemRetention(db), overridesOf(db, ref)])
      if (overrides === undefined) throw noPipeline(ref)
      return {
        system: snakeCased(system),
        overrides: overrides && snakeCased(overrides),
        effective: snakeCased(effectiveRetention(system, overrides)),
      }
    },

    /** Replaces all overrides; an absent field follows the system's settings. */
    async replaceOverrides(ref: PipelineRef, overrides: Wire.RetentionOverrides): Promise<void> {
      const isReplaced = await db.transaction((tx) => replaceOverrides(tx, ref, camelCased(overrides)))
      if (!isReplaced) throw noPipeline(ref)
    },
  }
}
