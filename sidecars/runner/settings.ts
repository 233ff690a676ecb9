// Parses the runner's part of the environment once. Other modules get the values as arguments.

import { RUNNER_LABEL } from '../../lake/pipeline/config-values.ts'
import {
  CONCURRENCY_MAX,
  type Env,
  GIB,
  type Machine,
  MIB,
  readSettings,
  type Settings,
  THREADS_MAX,
} from '../core/settings.ts'
import type { ShareSize } from '../engine/shares.ts'
import { type DiskLimit, SANDBOX_MODES, type SandboxMode } from '../sandbox/ladder.ts'
import { type SparkAddress, sparkAddressIn } from '../spark/address.ts'

const PORT = 8081
/** Share of the machine's memory for all engines together. Everything else uses the rest. */
const MEMORY_SHARE = 0.6

/** Python holds its copy of an engine's rows beside the engine. Below the minimum, libraries do not even load. */
const PYTHON_MEMORY_SHARE = 0.25
const PYTHON_MEMORY_MIN = 512 * MIB
/** With bubblewrap, files of a run are in memory. All runs together get a tenth of it, beside engines and interpreters. */
const PYTHON_DISK_MEMORY_SHARE = 0.1
const PYTHON_DISK_MEMORY_MIN = 64 * MIB
/** Without bubblewrap, files of a run are on disk. */
const PYTHON_DISK = 8 * GIB
const DAY_SECONDS = 86_400
/**
 * With this margin, a loop on one processor reaches the wall-clock limit first, and its error names that limit. The start of
 * the interpreter counts too.
 */
const PYTHON_CPU_MARGIN_SECONDS = 5
const RUN_SECONDS = 21_600
/** Parquet of one run: far more than a machine with one disk computes intentionally. */
const RUN_OUTPUT_BYTES = 64 * GIB

export interface RunnerSettings extends Settings {
  /** Limits of all engines together. One run alone may have nearly all of them. */
  total: ShareSize
  /** Wall-clock limit of one execution of a run, from its turn to its facts. */
  runSeconds: number
  /** Bytes that the result of one run may write. */
  outputBytes: number
  /** DISK_FLOOR in bytes: runs wait while less space is free. Null: the default; 0: no floor. */
  floorBytes: number | null
  /** Labels that pipelines may name in `runs_on`. */
  labels: readonly string[]
  /** The Spark cluster (SPARK_REMOTE); null: none, but Sail may be installed. */
  spark: SparkAddress | null
  /** Spilled bytes at which a run with `engine: auto` moves to Spark; null: only a lack of memory moves it. */
  autoSpillBytes: number | null
  /** The sandbox for SQL and Python of users. */
  sandbox: SandboxMode
  python: {
    /** Path of the interpreter; null: the machine's python3. */
    bin: string | null
    /** Address space of one process. */
    memoryBytes: number
    /** Limits of the directory of one process. */
    disk: DiskLimit
    /** Wall-clock limit of one run. */
    seconds: number
    /** Processor-time limit of one run. */
    cpuSeconds: number
  }
}

/** Reads the environment. Throws one SettingsError that lists every invalid variable. */
export function parseSettings(env: Env, machine: Machine): RunnerSettings {
  let own:
    | Pick<
        RunnerSettings,
        | 'total'
        | 'runSeconds'
        | 'outputBytes'
        | 'floorBytes'
        | 'labels'
        | 'spark'
        | 'autoSpillBytes'
        | 'sandbox'
        | 'python'
      >
    | undefined
  const common = readSettings(
    env,
    { port: PORT, grpcPort: 'RUNNER_GRPC_PORT' },
    ({ number, bytes, oneOf, list, parsed }) => {
      const concurrency = number('RUNNER_CONCURRENCY', 4, { min: 1, max: CONCURRENCY_MAX })
      const threads = number('ENGINE_THREADS', machine.cores, { min: 1, max: THREADS_MAX })
      const seconds = number('PYTHON_TIMEOUT', 3_600, { min: 1, max: DAY_SECONDS })
      const pythonMemory = Math.floor((machine.memoryBytes * PYTHON_MEMORY_SHARE) / concurrency)
      const inMemory = Math.floor((machine.memoryBytes * PYTHON_DISK_MEMORY_SHARE) / concurrency)
      const disk = bytes('PYTHON_DISK_LIMIT', 0)
      const memory = Math.floor(machine.memoryBytes * MEMORY_SHARE)
      const isFixed = (env.ENGINE_MEMORY_LIMIT?.trim() ?? '') !== ''
      const memoryLimitBytes = bytes('ENGINE_MEMORY_LIMIT', Math.min(GIB, Math.floor(memory / concurrency)))
      own = {
        total: { memoryBytes: isFixed ? memoryLimitBytes * concurrency : memory, threads },
        runSeconds: number('RUN_TIMEOUT', RUN_SECONDS, { min: 1, max: 7 * DAY_SECONDS }),
        outputBytes: bytes('RUN_OUTPUT_LIMIT', RUN_OUTPUT_BYTES),
        floorBytes: floorIn(env, bytes),
        labels: list(
          'RUNNER_LABELS',
          (label) => RUNNER_LABEL.test(label),
          `labels that match ${RUNNER_LABEL.source}`,
        ),
        spark: parsed('SPARK_REMOTE', sparkAddressIn, 'an address such as sc://host:15002'),
        autoSpillBytes: bytes('AUTO_SPILL_LIMIT', 0) || null,
        sandbox: oneOf('SANDBOX', SANDBOX_MODES),
        python: {
          bin: env.PYTHON_BIN?.trim() || null,
          memoryBytes: bytes(
            'PYTHON_MEMORY_LIMIT',
            Math.min(2 * GIB, Math.max(PYTHON_MEMORY_MIN, pythonMemory)),
          ),
          disk: {
            inMemory: disk || Math.min(PYTHON_DISK, Math.max(PYTHON_DISK_MEMORY_MIN, inMemory)),
            onDisk: disk || PYTHON_DISK,
          },
          seconds,
          cpuSeconds: number('PYTHON_CPU_LIMIT', seconds + PYTHON_CPU_MARGIN_SECONDS, {
            min: 1,
            max: DAY_SECONDS + PYTHON_CPU_MARGIN_SECONDS,
          }),
        },
      }
      return {
        concurrency,
        engine: {
          memoryLimitBytes,
          tempLimitBytes: bytes('ENGINE_TEMP_LIMIT', 16 * GIB),
          // ENGINE_THREADS counts the threads of all engines together. This is the least share of each engine.
          threads: Math.max(1, Math.floor(threads / concurrency)),
        },
      }
    },
  )
  if (own === undefined) throw new Error('settings were not read')
  return { ...common, ...own }
}

function floorIn(env: Env, bytes: (name: string, fallback: number) => number): number | null {
  const text = env.DISK_FLOOR?.trim() ?? ''
  if (text === '') return null
  return text === 'off' ? 0 : bytes('DISK_FLOOR', 0)
}
