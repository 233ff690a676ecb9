import { randomUUID } from 'node:crypto'
import { mkdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { LakeAccess } from '../../proto/gen/sluice/runner/v1/runner_pb.ts'
import type { EngineLease, EnginePool } from './engine-pool.ts'
import type { LakeSession } from './lake-session.ts'

/** What one piece of work has to itself: a view of the lake, an engine, and a directory. */
export interface Workplace {
  lake: LakeSession
  /** Throws EngineEnded, and the signal's reason. */
  engine: Promise<EngineLease>
  directory: string
  /** Resolves when nothing of it is left. Call it once, whatever happened. */
  clear(): Promise<void>
}

export interface WorkplaceOptions {
  openLake(access: LakeAccess, signal: AbortSignal): LakeSession
  pool: EnginePool
  /** Each workplace is a directory in it. */
  directory: string
}

/** Opens a workplace; the engine is on its way when this returns. */
export async function openWorkplace(
  { openLake, pool, directory: root }: WorkplaceOptions,
  access: LakeAccess,
  signal: AbortSignal,
): Promise<Workplace> {
  const directory = join(root, randomUUID())
  const lake = openLake(access, signal)
  const engine = pool.take(signal)
  // Whoever awaits it learns of it.
  engine.catch(() => {})
  await mkdir(directory, { recursive: true })
  return {
    lake,
    engine,
    directory,
    async clear() {
      const [taken] = await Promise.allSettled([engine])
      if (taken.status === 'fulfilled') await taken.value.release()
      lake.close()
      await rm(directory, { recursive: true, force: true })
    },
  }
}
