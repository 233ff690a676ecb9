// The runner's part of the environment is parsed here, once; values are passed in from there.
import { CONCURRENCY_MAX, type Env, GIB, type Machine, readSettings, THREADS_MAX } from '../settings.ts'

const PORT = 8081
/** Engines together leave the rest of the machine's memory to everything else. */
const MEMORY_SHARE = 0.6

/** Reads the environment. Throws one SettingsError that lists every bad name. */
export const parseSettings = (env: Env, machine: Machine) =>
  readSettings(env, PORT, ({ number, bytes }) => {
    const concurrency = number('RUNNER_CONCURRENCY', 4, { min: 1, max: CONCURRENCY_MAX })
    const threads = number('ENGINE_THREADS', Math.max(1, machine.cores - 1), { min: 1, max: THREADS_MAX })
    const memoryBytes = Math.min(GIB, Math.floor((machine.memoryBytes * MEMORY_SHARE) / concurrency))
    return {
      concurrency,
      engine: {
        memoryLimitBytes: bytes('ENGINE_MEMORY_LIMIT', memoryBytes),
        tempLimitBytes: bytes('ENGINE_TEMP_LIMIT', 16 * GIB),
        // So many for all engines together; each is given its share when it starts, whether or not others work.
        threads: Math.max(1, Math.floor(threads / concurrency)),
      },
    }
  })
