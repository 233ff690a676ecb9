/** Keeps a tree of processes alive: starts them in order, restarts dead ones with backoff, and stops them in reverse order. */

import { constants } from 'node:os'
import { type Backoff, backoffMs } from '../../ground/process/backoff.ts'
import type { WriteLine } from './log.ts'
import { messageOf } from './refusal.ts'
import { type Ask, watch } from './watchdog.ts'

/** A started process. `stop` resolves when the process has ended, within the process's own deadline. */
export type Running = {
  pid: number
  port?: number
  exited: Promise<number>
  stop: () => Promise<void>
  /** Ends the process and its children at once. */
  kill: () => void
  /** The last error lines of the process, in one line. */
  lastWords?: () => string
}

export type Part = {
  name: string
  /** Resolves when parts of the next stage may start. Rejects when the part could not start. */
  start: () => Promise<Running>
  /** Asks the running process for a sign of life. Without it, a silent process is not replaced. */
  ask?: Ask
  /** The exit code after which a restart cannot help. */
  finalCode?: number
  /** An exit code with the same meaning, but only before the tree was ready once. Later a missing dependency may come back. */
  firstFinalCode?: number
}

export type PartState = { name: string; port?: number; pid?: number; startedAt?: Date; restarts: number }

export type Tree = {
  /** Starts one stage after another. Rejects when the first start of a part fails. */
  start: () => Promise<void>
  /** Stops the stages in reverse order. May be called at any time, any number of times. */
  stop: () => Promise<void>
  /** Resolves with a part that ended permanently, and with its reason. */
  gaveUp: Promise<{ name: string; reason: string }>
  states: () => PartState[]
}

type Options = {
  log: WriteLine
  onChange?: () => void
  /** Whether all parts have been ready at the same time once. */
  wasReady?: () => boolean
  delayMs?: (failures: number) => number
}

/** A part that ran this long counts as healthy, so its next restart comes at once. */
const HEALTHY_AFTER_MS = 10_000
/** Delays of further restarts. The first restart comes at once. */
const RESTART: Backoff = { firstMs: 200, limitMs: 10_000 }
const restartMs = (failures: number) => backoffMs(Math.max(0, failures - 1), RESTART)

export function supervise(
  stages: Part[][],
  { log, onChange, wasReady = () => false, delayMs = restartMs }: Options,
): Tree {
  const stopRequested = Promise.withResolvers<void>()
  const gaveUp = Promise.withResolvers<{ name: string; reason: string }>()
  let isStopping = false

  const changed = unfailing(onChange, log)
  const supervisors = stages.map((stage) => stage.map(makeSupervisor))

  function makeSupervisor(part: Part) {
    const state: PartState = { name: part.name, restarts: 0 }
    let current: Promise<Running> | undefined

    async function begin() {
      current = part.start()
      const running = await current
      state.pid = running.pid
      state.port = running.port
      state.startedAt = new Date()
      log(part.name, `started, pid ${running.pid}${running.port ? `, port ${running.port}` : ''}`)
      changed()
      return running
    }

    async function keepRunning(first: Running) {
      let running: Running | undefined = first
      let failures = 0
      while (running) {
        const startedMs = performance.now()
        const stopWatching = watched(part, running, log, () => isStopping)
        const code: number = await running.exited
        stopWatching()
        state.pid = undefined
        changed()
        if (isStopping) return
        if (code === part.finalCode || (code === part.firstFinalCode && !wasReady())) {
          return gaveUp.resolve({ name: part.name, reason: running.lastWords?.() || describeExit(code) })
        }
        failures = performance.now() - startedMs > HEALTHY_AFTER_MS ? 1 : failures + 1
        running = await restart(describeExit(code))
      }

      async function restart(reason: string): Promise<Running | undefined> {
        const waitMs = delayMs(failures)
        state.restarts++
        log(
          'sluice',
          `${part.name} ended (${reason}): restart ${state.restarts}${waitMs > 0 ? ` in ${waitMs} ms` : ''}`,
        )
        if (waitMs > 0) await waitUnlessStopping(waitMs)
        if (isStopping) return undefined
        try {
          return await begin()
        } catch (error) {
          failures++
          return restart(messageOf(error))
        }
      }
    }

    return {
      state,
      start: async () => {
        const running = await begin()
        void keepRunning(running)
      },
      stop: async () => {
        const running = await current?.catch(() => undefined)
        await running?.stop()
      },
    }
  }

  async function waitUnlessStopping(ms: number) {
    let timer: Timer | undefined
    const elapsed = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, ms)
    })
    await Promise.race([elapsed, stopRequested.promise])
    clearTimeout(timer)
  }

  async function start() {
    for (const stage of supervisors) {
      if (isStopping) return
      await Promise.all(stage.map((supervisor) => supervisor.start()))
    }
  }

  async function stopAll() {
    isStopping = true
    stopRequested.resolve()
    for (const stage of [...supervisors].reverse())
      await Promise.all(stage.map((supervisor) => supervisor.stop()))
  }
  let stopped: Promise<void> | undefined

  return {
    start,
    stop: () => {
      stopped ??= stopAll()
      return stopped
    },
    gaveUp: gaveUp.promise,
    states: () => supervisors.flat().map((supervisor) => ({ ...supervisor.state })),
  }
}

/** A full disk or a read-only one must not end the tree, so the list of processes may be out of date. */
function unfailing(onChange: Options['onChange'], log: WriteLine): () => void {
  let problem: string | undefined
  return () => {
    try {
      onChange?.()
      problem = undefined
    } catch (error) {
      const message = messageOf(error)
      if (message !== problem) log('sluice', `the list of processes cannot be written: ${message}`)
      problem = message
    }
  }
}

/** Ends a process that no longer answers. Returns the function that ends the questions. */
function watched(
  { name, ask }: Part,
  { kill }: Running,
  log: WriteLine,
  isStopping: () => boolean,
): () => void {
  if (ask === undefined) return () => {}
  const onSilent = (seconds: number) => {
    if (isStopping()) return
    log('sluice', `${name} does not answer for ${seconds} s: ending it`)
    kill()
  }
  return watch({ ask, onSilent })
}

/** A code above 128 stands for a signal, as in a shell. */
function describeExit(code: number) {
  const signal = Object.entries(constants.signals).find(([, number]) => number === code - 128)
  return signal ? signal[0] : `code ${code}`
}
