import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { silent } from '../../core/testing.ts'
import { type ProcessLimits, type SandboxStep, STEPS_OF } from '../../sandbox/ladder.ts'
import { findPythons } from '../../sandbox/python.ts'
import { type InterpreterLease, type Interpreters, makeInterpreters } from '../interpreter/interpreters.ts'
import type { Call, Job, Outcome } from '../interpreter/messages.ts'

const MIB = 1_048_576
export const TEST_LIMITS: ProcessLimits = {
  memoryBytes: 512 * MIB,
  cpuSeconds: 20,
  fileBytes: 8 * MIB,
  disk: { inMemory: 32 * MIB, onDisk: 32 * MIB },
  files: 2_000,
}

const DIRECTORY_IS_FULL = 'the directory of the run is full'

export interface Bench {
  interpreters: Interpreters
  /** Runs a source without an engine. */
  run(source: string, options?: RunOptions): Promise<Ran>
  close(): Promise<void>
}

interface RunOptions {
  answer?: (call: Call) => Promise<{ value: unknown } | { error: string }>
  signal?: AbortSignal
  onLine?: (line: string) => void
  onLease?: (lease: InterpreterLease) => void
}

interface Ran {
  outcome: Outcome
  lines: string[]
  dropped: number
  ms: number
}

export const VARIABLES: Extract<Job, { kind: 'run' }>['variables'] = {
  config: { merge_strategy: 'full_refresh' },
  this: '"default.bronze"."t"',
  run_started_at: '2026-01-02T03:04:05.000Z',
  watermark_value: null,
  strategy: 'full_refresh',
  strategies: ['full_refresh', 'incremental'],
}

/** Opens interpreters in one sandbox step, or in the strongest step that works. */
export async function openBench(
  step: SandboxStep | null = null,
  options: { processLimits?: Partial<ProcessLimits>; pythonBin?: string } = {},
): Promise<Bench> {
  const directory = await mkdtemp(join(tmpdir(), 'sluice-interpreters-'))
  const interpreters = makeInterpreters({
    directory,
    mode: 'auto',
    ...(step === null ? {} : { steps: [step] }),
    pythonBin: options.pythonBin ?? null,
    processLimits: { ...TEST_LIMITS, ...options.processLimits },
    threads: 1,
    log: silent,
  })
  await interpreters.chosen
  return {
    interpreters,
    async run(source, { answer, signal, onLine, onLease } = {}) {
      const started = performance.now()
      const lease = await interpreters.acquire()
      onLease?.(lease)
      const ran: Omit<Ran, 'outcome' | 'ms'> = { lines: [], dropped: 0 }
      try {
        const path = join(lease.directories.inputs, 'pipeline.py')
        await writeFile(path, source)
        const job: Job = {
          kind: 'run',
          source: path,
          variables: VARIABLES,
          logLimits: { lines: 200, bytes: 100_000 },
          memory: '512 MB',
          disk: '32 MB',
          isConfined: lease.sandbox.step !== 'none',
        }
        const listener = {
          answer: answer ?? (async () => ({ error: 'there is no engine here' })),
          log: (_: string, message: string) => {
            ran.lines.push(message)
            onLine?.(message)
          },
          dropped: (lines: number) => {
            ran.dropped += lines
          },
        }
        const endWatch = lease.watchDisk(() => lease.interpreter.end(DIRECTORY_IS_FULL))
        const outcome = await lease.interpreter
          .work(job, listener, signal ?? AbortSignal.timeout(30_000))
          .finally(endWatch)
        return { ...ran, outcome, ms: performance.now() - started }
      } finally {
        await lease.release()
      }
    },
    async close() {
      await interpreters.stop()
      await rm(directory, { recursive: true, force: true })
    },
  }
}

/** The sandbox steps that work on this machine. CI ensures that all steps work there. */
export async function stepsHere(): Promise<SandboxStep[]> {
  const { pythons } = await findPythons(null)
  if (pythons.length === 0) return []
  const works = await Promise.all(
    STEPS_OF.auto.map(async (step) => {
      const bench = await openBench(step)
      const found = bench.interpreters.sandbox()
      await bench.close()
      return found !== null && !('reason' in found) ? [step] : []
    }),
  )
  return works.flat()
}
