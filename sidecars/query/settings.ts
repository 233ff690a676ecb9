// Parses the query service's part of the environment, once. Other files get the values as arguments.

import {
  CONCURRENCY_MAX,
  type Env,
  GIB,
  type Machine,
  readSettings,
  type Settings,
  THREADS_MAX,
} from '../core/settings.ts'
import { SANDBOX_MODES, type SandboxMode } from '../sandbox/ladder.ts'

const PORT = 8082
/** The share of the machine's memory for all engines together. The rest is for pipelines and other processes. */
const MEMORY_SHARE = 0.25

/** Reads the environment. Throws one SettingsError that lists every variable with an invalid value. */
export function parseSettings(env: Env, machine: Machine): Settings & { sandbox: SandboxMode } {
  let sandbox: SandboxMode = 'auto'
  const common = readSettings(
    env,
    { port: PORT, grpcPort: 'QUERY_GRPC_PORT' },
    ({ number, bytes, oneOf }) => {
      sandbox = oneOf('SANDBOX', SANDBOX_MODES)
      const concurrency = number('QUERY_CONCURRENCY', Math.max(2, machine.cores), {
        min: 1,
        max: CONCURRENCY_MAX,
      })
      const memoryBytes = Math.floor((machine.memoryBytes * MEMORY_SHARE) / concurrency)
      return {
        concurrency,
        engine: {
          memoryLimitBytes: bytes('QUERY_MEMORY_LIMIT', memoryBytes),
          tempLimitBytes: bytes('QUERY_TEMP_LIMIT', 4 * GIB),
          threads: number('QUERY_THREADS', machine.cores, { min: 1, max: THREADS_MAX }),
        },
      }
    },
  )
  return { ...common, sandbox }
}
