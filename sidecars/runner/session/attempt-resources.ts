import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { AuthorError } from '../../../lake/pipeline/author-error.ts'
import { NO_SPARK } from '../../../lake/pipeline/config.ts'
import type { LakeAccess } from '../../../proto/gen/sluice/runner/v1/runner_pb.ts'
import { type Cost, costOfAll } from '../../core/process-usage.ts'
import { randomName, removeTree } from '../../core/scratch.ts'
import type { SparkEngines } from '../../spark/engines.ts'
import type { SparkSession } from '../../spark/session.ts'
import type { EngineLease, RunEngines } from '../engine/engine-lease.ts'
import type { InterpreterLease, Interpreters, PythonLimits } from '../interpreter/interpreters.ts'
import type { LakeSession } from './lake-session.ts'
import { type LandingDirectory, landingIn, landingOfPython } from './landing.ts'

/** The resources of one attempt, preview or test request: a view of the lake, an engine, and a directory. */
export interface AttemptResources {
  lake: LakeSession
  engine: EngineLease
  directory: string
  /** The landing zones: beside `directory`, or with Python in its directory of inputs. */
  landing: LandingDirectory
  /** A Python process, if the request needs one. */
  python: InterpreterLease | null
  /**
   * The session on engine `spark`, opened at the first call. `isLarge`: the work has exceeded the memory of DuckDB. Throws
   * AuthorError without such an engine.
   */
  spark(isLarge?: boolean): Promise<SparkSession>
  /** Engine `spark`; null: this runner has none. */
  sparkEngine: Pick<SparkEngines, 'name' | 'writesLists'> | null
  /** The cost of the engines and of the Python process so far. */
  cost(): Cost
  /** Releases everything, and resolves when nothing is left. Call it exactly once. */
  clear(): Promise<void>
  /**
   * Releases these resources and opens others without Python. The new engine uses the same slot, so no waiting caller gets it
   * first. Throws EngineEnded; these resources are released even then.
   */
  reopen(signal: AbortSignal): Promise<AttemptResources>
}

export interface AttemptResourcesOptions {
  openLake(access: LakeAccess, signal: AbortSignal): LakeSession
  pool: RunEngines
  interpreters: Interpreters
  pythonLimits: PythonLimits
  /** Engine `spark`; null: this runner has none. */
  spark: SparkEngines | null
}

/**
 * Acquires an engine and makes a directory. The engine may still be starting. Throws EnginesBusy, the signal's reason, and with Python the errors of
 * Interpreters.acquire.
 */
export async function openAttemptResources(
  options: AttemptResourcesOptions,
  access: LakeAccess,
  signal: AbortSignal,
  { needsPython = false } = {},
): Promise<AttemptResources> {
  const python = needsPython ? await options.interpreters.acquire(signal) : null
  const engine = await options.pool.acquire(signal).catch(async (error: unknown) => {
    await python?.release()
    throw error
  })
  return resourcesOf(options, access, { python, engine }, signal)
}

async function resourcesOf(
  options: AttemptResourcesOptions,
  access: LakeAccess,
  { python, engine }: Pick<AttemptResources, 'python' | 'engine'>,
  signal: AbortSignal,
): Promise<AttemptResources> {
  // An engine sees only its own directory, and the directories of interpreters.
  const ownDirectory = python?.directory ?? join(engine.directory, randomName())
  const directory = python?.directory ?? join(ownDirectory, 'work')
  try {
    mkdirSync(directory, { recursive: true })
  } catch (error) {
    await python?.release()
    await engine.release()
    throw error
  }
  const lake = options.openLake(access, signal)
  const remove = () => removeTree(ownDirectory)
  let session: Promise<SparkSession> | null = null
  let opened: SparkSession | null = null
  const closeSession = async () => {
    await session?.catch(() => null)
    await opened?.close()
  }
  return {
    lake,
    engine,
    sparkEngine: options.spark,
    spark(isLarge = false) {
      if (options.spark === null) throw new AuthorError(NO_SPARK, { where: '' })
      session ??= options.spark
        .open({ lake: access, directory, isLarge, share: () => engine.share() }, signal)
        .then((started) => {
          opened = started
          return started
        })
      return session
    },
    directory,
    landing: python ? landingOfPython(python.directories.inputs) : landingIn(ownDirectory),
    python,
    cost: () =>
      costOfAll([
        engine.cost(),
        ...(python ? [python.interpreter.cost()] : []),
        ...(opened ? [opened.cost()] : []),
      ]),
    async clear() {
      // Python ends first, because it could still send requests to the engine.
      await python?.release()
      await closeSession()
      await engine.release(remove)
      lake.close()
    },
    async reopen(signal) {
      await python?.release()
      await closeSession()
      const next = await engine.exchange(remove).finally(() => lake.close())
      return resourcesOf(options, access, { python: null, engine: next }, signal)
    },
  }
}
