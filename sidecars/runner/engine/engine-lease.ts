import type { EngineSize } from '../../../lake/engine/instance.ts'
import type { Cost } from '../../core/process-usage.ts'
import type { EngineMemory } from '../../engine/engine-pool.ts'
import type { CallProgress } from '../../engine/engine-process.ts'
import { limits } from '../core/limits.ts'
import type { AnswerOf, EngineRequest } from './engine-messages.ts'

/** An engine process that one run leases. */
export interface EngineLease {
  pid: number
  /** Absolute path of a directory that only this process uses. The lessee creates and removes a directory for the run in it. */
  directory: string
  /** Returns the number of a fresh instance, which is not open yet. */
  instance(): Promise<number>
  /**
   * Returns the instance that runs share. After a failure in it, it ends with the lease. A text that was not accepted is no
   * failure.
   */
  shared(): Promise<SharedInstance>
  /** The limits of the next instance, from what the machine has left. A run has up to two instances at once. */
  share(): Pick<EngineSize, 'memoryLimitBytes' | 'threads'>
  /** Same contract as EngineProcess.call. */
  call<R extends EngineRequest>(request: R, signal?: AbortSignal): Promise<AnswerOf<R['kind']>>
  /** Receives the progress of each long call, with the cost since the begin of the lease. */
  onProgress?: (progress: Pick<CallProgress, 'percent'> & Cost) => void
  /** The cost since the begin of the lease. */
  cost(): Cost
  /** Closes an instance before the lease ends. Throws the errors of EngineProcess.call; `release` then tries again. */
  close(number: number): Promise<void>
  /**
   * Releases the process, or ends it if it is not fit for another run. Resolves when nothing of the run is left. `clear`
   * removes the run's files. It is called when nothing uses them, before another run gets the process.
   */
  release(clear?: () => Promise<void>): Promise<void>
  /** Releases the process and leases a fit one, ahead of all waiting callers. Throws EngineEnded; the slot is released then. */
  exchange(clear?: () => Promise<void>): Promise<EngineLease>
}

export interface SharedInstance {
  number: number
  /**
   * Lets the instance read one more file until the lease ends. Returns the path to use. Throws if the file cannot be linked.
   */
  link(path: string): Promise<string>
}

/** Every engine is in use, and the queue of waiting callers is full. */
export class EnginesBusy extends Error {
  constructor() {
    super(`every engine is in use and ${limits.enginesAwaited} callers wait already: try again later`)
  }
}

export interface RunEngines {
  /**
   * Waits while every engine is in use, but not for the start of a process: calls wait for that. Throws EnginesBusy, and the
   * signal's reason.
   */
  acquire(signal?: AbortSignal): Promise<EngineLease>
  /** Same contract as EnginePool.isServing. */
  isServing(): boolean
  /** Memory of the processes now. */
  memory(): EngineMemory
  stop(): Promise<void>
}
