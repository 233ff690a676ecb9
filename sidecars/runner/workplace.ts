import { randomUUID } from 'node:crypto'
import { mkdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { LakeAccess } from '../../proto/gen/sluice/runner/v1/runner_pb.ts'
import type { EngineLease, EnginePool } from './engine-pool.ts'
import type { LakeSession } from './lake-session.ts'
import type { InterpreterLease, Interpreters } from './python/interpreters.ts'
import type { PythonLimits } from './python/run.ts'

/** What one piece of work has to itself: a view of the lake, an engine, and a directory. */
export interface Workplace {
  lake: LakeSession
  /** Throws EngineEnded, and the signal's reason. */
  engine: Promise<EngineLease>
  directory: string
  /** A Python process, where that was asked for. */
  python: InterpreterLease | null
  /** Resolves when nothing of it is left. Call it once, whatever happened. */
  clear(): Promise<void>
}

export interface WorkplaceOptions {
  openLake(access: LakeAccess, signal: AbortSignal): LakeSession
  pool: EnginePool
  /** Each workplace is a directory in it, unless an interpreter brings one along. */
  directory: string
  interpreters: Interpreters
  pythonLimits: PythonLimits
}

/**
 * Opens a workplace; the engine is on its way when this returns. With Python it throws what Interpreters.take does.
 */
export async function openWorkplace(
  { openLake, pool, directory: root, interpreters }: WorkplaceOptions,
  access: LakeAccess,
  signal: AbortSignal,
  { needsPython = false } = {},
): Promise<Workplace> {
  const python = needsPython ? await interpreters.take(signal) : null
  const directory = python?.directory ?? join(root, randomUUID())
  const lake = openLake(access, signal)
  const engine = pool.take(signal)
  // Whoever awaits it learns of it.
  engine.catch(() => {})
  await mkdir(directory, { recursive: true })
  return {
    lake,
    engine,
    directory,
    python,
    async clear() {
      // It could still ask for something.
      await python?.release()
      const [taken] = await Promise.allSettled([engine])
      if (taken.status === 'fulfilled') await taken.value.release()
      lake.close()
      await rm(directory, { recursive: true, force: true })
    },
  }
}
