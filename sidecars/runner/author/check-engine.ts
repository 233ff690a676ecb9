import { limits } from '../core/limits.ts'
import type { EngineLease, RunEngines } from '../engine/engine-lease.ts'
import { makeRunSlots } from '../engine/engine-leases.ts'
import type { TemplateProcess } from '../engine/template-process.ts'

/** The engine of one check of a draft. It is acquired at the first use, because a draft of plain files needs none. */
export interface CheckEngine extends TemplateProcess {
  /** Throws EnginesBusy, and the signal's reason; a later call tries again. */
  lease(signal: AbortSignal): Promise<EngineLease>
  release(): Promise<void>
}

/** Makes the function that opens an engine for a check. A hostile text can crash an engine, so engines of runs are used. */
export function makeCheckEngines(pool: Pick<RunEngines, 'acquire'>): () => CheckEngine {
  const turns = makeRunSlots(limits.draftChecks)
  return () => {
    let opened: { engine: EngineLease; leave: () => void } | null = null
    const lease = async (signal: AbortSignal): Promise<EngineLease> => {
      if (opened !== null) return opened.engine
      const leave = await turns.acquire(signal)
      const engine = await pool.acquire(signal).catch((error: unknown) => {
        leave()
        throw error
      })
      opened = { engine, leave }
      return engine
    }
    return {
      lease,
      call: async (request, signal = new AbortController().signal) =>
        (await lease(signal)).call(request, signal),
      async release() {
        try {
          await opened?.engine.release()
        } finally {
          opened?.leave()
        }
      },
    }
  }
}
