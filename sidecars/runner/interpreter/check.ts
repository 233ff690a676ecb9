import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { changesUser } from '../../sandbox/ladder.ts'
import { limits } from '../core/limits.ts'
import { EnginesBusy } from '../engine/engine-lease.ts'
import { makeRunSlots } from '../engine/engine-leases.ts'
import { InterpreterEnded } from './interpreter.ts'
import { type Interpreters, NoPython } from './interpreters.ts'
import type { WrittenQuery } from './messages.ts'

/** `unchecked`: why the source could not be checked. `queries`: the queries in the text of a source that compiles. */
export type SyntaxReport = { error: string } | { unchecked: string } | { queries: readonly WrittenQuery[] }

/**
 * Makes the function that checks whether a Python source compiles. A hostile source can crash a compiler, so it is compiled
 * where pipelines run. Throws the signal's reason.
 */
export function makeSyntaxCheck(interpreters: Interpreters) {
  const turns = makeRunSlots(limits.pythonChecks)
  return async (source: string, signal: AbortSignal): Promise<SyntaxReport> => {
    let release: (() => void) | undefined
    try {
      release = await turns.acquire(signal)
      return await checkSyntax(interpreters, source, signal)
    } catch (error) {
      if (error instanceof EnginesBusy) return { unchecked: 'too many drafts are being checked at once' }
      throw error
    } finally {
      release?.()
    }
  }
}

async function checkSyntax(
  interpreters: Interpreters,
  source: string,
  signal: AbortSignal,
): Promise<SyntaxReport> {
  const timeout = AbortSignal.timeout(limits.pythonCheckMs)
  try {
    const lease = await interpreters.acquire(signal)
    try {
      const path = join(lease.directories.inputs, 'pipeline.py')
      await writeFile(path, source, { mode: changesUser(lease.sandbox.step) ? 0o644 : 0o600 })
      const job = {
        kind: 'check',
        source: path,
        logLimits: { lines: 0, bytes: 0 },
        memory: '',
        disk: null,
        isConfined: true,
      } as const
      const outcome = await lease.interpreter.work(job, SILENT, AbortSignal.any([signal, timeout]))
      if (!('checked' in outcome)) return { queries: [] }
      if (outcome.checked === null) return { queries: outcome.queries }
      const { line, column, message } = outcome.checked
      const location = column === null ? `line ${line}` : `line ${line} column ${column}`
      return { error: line === null ? message : `${location}: ${message}` }
    } finally {
      await lease.release()
    }
  } catch (error) {
    signal.throwIfAborted()
    if (timeout.aborted)
      return { error: `compiling the source takes longer than ${limits.pythonCheckMs / 1_000} s` }
    if (error instanceof NoPython) return { unchecked: error.message }
    if (error instanceof InterpreterEnded) return { error: `the source cannot be compiled: ${error.why}` }
    throw error
  }
}

const SILENT = {
  answer: async () => ({ error: 'a syntax check executes no calls' }),
  log: () => {},
  dropped: () => {},
}
