import { mkdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { Log } from '../log.ts'
import { type AnswerOf, EngineFault, type EngineRequest } from './engine-messages.ts'
import { EngineProcess } from './engine-process.ts'
import { limits } from './limits.ts'
import type { EngineSettings } from './settings.ts'

// Engine processes, kept warm and used by one run at a time. Each holds fresh instances of the engine, prepared while
// nobody waits: one for the pipeline, one for its tests. An instance is used once and thrown away.

/** A fresh instance of the engine, and the directory it may read and write. */
export interface Instance {
  number: number
  directory: string
}

/** An engine process, for one run. */
export interface EngineLease {
  pid: number
  call<R extends EngineRequest>(request: R, signal?: AbortSignal): Promise<AnswerOf<R['kind']>>
  instance(): Promise<Instance>
  /** Gives the process back, or ends it if it is not fit for another run. Resolves when nothing of the run is left. */
  release(): Promise<void>
}

export interface EnginePool {
  /** Waits while every engine is in use. */
  take(signal?: AbortSignal): Promise<EngineLease>
  /** Whether engines can be started, as far as is known. */
  isServing(): boolean
  stop(): Promise<void>
}

/** What a process may keep resident between runs, for each byte its engine may use: allocators do not give all back. */
const RESIDENT_SHARE = 1.5
const RESIDENT_BASE_BYTES = 268_435_456
/** One for the pipeline, one for its tests. */
const SPARES = 2
/** A process that cannot start is tried again after this time. */
const RESTART_MS = 1_000

interface Engine {
  process: EngineProcess
  directory: string
  spares: Promise<Instance>[]
  instances: number
  runs: number
  idleSince: number
}

export function makeEnginePool(options: {
  directory: string
  engine: EngineSettings
  /** Engines in use at once. */
  maxLeased: number
  log: Log
}): EnginePool {
  const { directory, engine: settings, maxLeased, log } = options
  const idle: Engine[] = []
  const all = new Set<Engine>()
  const waiting: (() => void)[] = []
  let leased = 0
  let started = 0
  let isStopped = false
  let canStart = false
  const sweep = setInterval(endIdle, limits.engineIdleMs / 4)
  sweep.unref()
  keepOneWarm()

  async function start(): Promise<Engine> {
    started += 1
    const own = join(directory, String(started))
    await mkdir(own, { recursive: true })
    const engine: Engine = {
      process: new EngineProcess(own),
      directory: own,
      spares: [],
      instances: 0,
      runs: 0,
      idleSince: performance.now(),
    }
    all.add(engine)
    void engine.process.exited.then((how) => forget(engine, how))
    try {
      await engine.process.ready
      canStart = true
    } catch (error) {
      canStart = false
      throw error
    }
    prepare(engine)
    return engine
  }

  function prepare(engine: Engine): void {
    while (engine.spares.length < SPARES) {
      const spare = open(engine)
      // Whoever takes it learns of the failure.
      spare.catch(() => {})
      engine.spares.push(spare)
    }
  }

  async function open(engine: Engine): Promise<Instance> {
    engine.instances += 1
    const instance = { number: engine.instances, directory: join(engine.directory, String(engine.instances)) }
    await mkdir(instance.directory)
    const { threads, memoryLimitBytes, tempLimitBytes } = settings
    await engine.process.call({ kind: 'prepare', ...instance, threads, memoryLimitBytes, tempLimitBytes })
    return instance
  }

  function forget(engine: Engine, how: string): void {
    all.delete(engine)
    const place = idle.indexOf(engine)
    if (place >= 0) {
      idle.splice(place, 1)
      if (!isStopped) log.warn('an idle engine process ended', { how, pid: engine.process.pid })
    }
    void rm(engine.directory, { recursive: true, force: true })
    keepOneWarm()
  }

  function keepOneWarm(): void {
    if (isStopped || all.size > 0) return
    start().then(
      (engine) => idle.push(engine),
      (error: unknown) => {
        if (isStopped) return
        log.error('an engine process could not be started', { error: String(error) })
        setTimeout(keepOneWarm, RESTART_MS).unref()
      },
    )
  }

  /** The engine used last, which is the one whose pages are in memory. */
  function warm(): Engine | undefined {
    for (;;) {
      const engine = idle.pop()
      if (engine === undefined || !engine.process.hasEnded) return engine
    }
  }

  function endIdle(): void {
    const before = performance.now() - limits.engineIdleMs
    const extra = idle.filter(({ idleSince }) => idleSince < before).slice(all.size === idle.length ? 1 : 0)
    for (const engine of extra) {
      idle.splice(idle.indexOf(engine), 1)
      engine.process.end()
    }
  }

  function isFit({ process, runs }: Engine): boolean {
    const residentLimit = RESIDENT_BASE_BYTES + RESIDENT_SHARE * settings.memoryLimitBytes
    return !process.hasEnded && runs < limits.runsPerEngine && process.rssBytes < residentLimit
  }

  return {
    async take(signal) {
      signal?.throwIfAborted()
      if (leased >= maxLeased) await turn(waiting, signal)
      leased += 1
      const leave = () => {
        leased -= 1
        waiting.shift()?.()
      }
      try {
        const engine = warm() ?? (await start())
        engine.runs += 1
        return leaseOf(engine, leave)
      } catch (error) {
        leave()
        throw error
      }
    },
    isServing: () => canStart && !isStopped,
    async stop() {
      isStopped = true
      clearInterval(sweep)
      const processes = [...all].map(({ process }) => process)
      for (const process of processes) process.end()
      await Promise.all(processes.map(({ exited }) => exited))
    },
  }

  function leaseOf(engine: Engine, leave: () => void): EngineLease {
    const { process } = engine
    const used: Instance[] = []
    let isSpoilt = false
    return {
      pid: process.pid,
      async call(request, signal) {
        try {
          return await process.call(request, signal)
        } catch (error) {
          // After this the allocator's state is anyone's guess.
          if (error instanceof EngineFault && error.kind === 'outOfMemory') isSpoilt = true
          throw error
        }
      },
      async instance() {
        const instance = await (engine.spares.shift() ?? open(engine))
        used.push(instance)
        return instance
      },
      async release() {
        try {
          for (const { number } of used)
            await process.call({ kind: 'close', number }, AbortSignal.timeout(limits.closeMs))
        } catch {
          // An instance that cannot be closed would live on: so its process may not.
          process.end()
        }
        if (isSpoilt || !isFit(engine)) {
          process.end()
          await process.exited
        } else {
          await Promise.all(used.map((instance) => rm(instance.directory, { recursive: true, force: true })))
          engine.idleSince = performance.now()
          prepare(engine)
          idle.push(engine)
        }
        leave()
      },
    }
  }
}

/** Resolves when it is this one's turn. Throws the signal's reason. */
function turn(waiting: (() => void)[], signal?: AbortSignal): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  const leaveQueue = () => {
    const place = waiting.indexOf(go)
    if (place >= 0) waiting.splice(place, 1)
    reject(signal?.reason)
  }
  const go = () => {
    signal?.removeEventListener('abort', leaveQueue)
    resolve()
  }
  waiting.push(go)
  signal?.addEventListener('abort', leaveQueue, { once: true })
  return promise
}
