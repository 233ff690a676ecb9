import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import type { LakeAccess } from '../../../proto/gen/sluice/runner/v1/runner_pb.ts'
import { randomName, removeTree } from '../../core/scratch.ts'
import type { EngineLease, RunEngines } from '../engine/engine-leases.ts'
import type { InterpreterLease, Interpreters, PythonLimits } from '../python/interpreters.ts'
import type { LakeSession } from './lake-session.ts'
import { type LandingPlace, landingIn, landingOfPython } from './landing.ts'

/** What one piece of work has to itself: a view of the lake, an engine, and a directory. */
export interface Workplace {
  lake: LakeSession
  engine: EngineLease
  directory: string
  /** Beside it, or in that of Python. */
  landing: LandingPlace
  /** A Python process, where that was asked for. */
  python: InterpreterLease | null
  /** Resolves when nothing of it is left. Call it once, whatever happened. */
  clear(): Promise<void>
  /**
   * Clears it and opens another without Python, with the engine of its turn: nobody who waits for one comes before. Throws
   * EngineEnded; then it is cleared.
   */
  reopen(signal: AbortSignal): Promise<Workplace>
}

export interface WorkplaceOptions {
  openLake(access: LakeAccess, signal: AbortSignal): LakeSession
  pool: RunEngines
  interpreters: Interpreters
  pythonLimits: PythonLimits
}

/**
 * Opens a workplace; the engine may still be starting when this returns. Throws EnginesBusy and the signal's reason, and
 * with Python what Interpreters.take does.
 */
export async function openWorkplace(
  options: WorkplaceOptions,
  access: LakeAccess,
  signal: AbortSignal,
  { needsPython = false } = {},
): Promise<Workplace> {
  const python = needsPython ? await options.interpreters.take(signal) : null
  const engine = await options.pool.take(signal).catch(async (error: unknown) => {
    await python?.release()
    throw error
  })
  return placeOf(options, access, { python, engine }, signal)
}

async function placeOf(
  options: WorkplaceOptions,
  access: LakeAccess,
  { python, engine }: Pick<Workplace, 'python' | 'engine'>,
  signal: AbortSignal,
): Promise<Workplace> {
  // An engine sees no directory but its own, and those that interpreters bring along.
  const own = python?.directory ?? join(engine.directory, randomName())
  const directory = python?.directory ?? join(own, 'room')
  try {
    mkdirSync(directory, { recursive: true })
  } catch (error) {
    await python?.release()
    await engine.release()
    throw error
  }
  const lake = options.openLake(access, signal)
  const remove = () => removeTree(own)
  return {
    lake,
    engine,
    directory,
    landing: python ? landingOfPython(python.rooms.inputs) : landingIn(own),
    python,
    async clear() {
      // It could still ask for something.
      await python?.release()
      await engine.release(remove)
      lake.close()
    },
    async reopen(signal) {
      await python?.release()
      const next = await engine.exchange(remove).finally(() => lake.close())
      return placeOf(options, access, { python: null, engine: next }, signal)
    },
  }
}
