// For tests of SQL: a runner on a machine without Python and Spark.
import type { AttemptResourcesOptions } from './session/attempt-resources.ts'

export const noPython: Pick<AttemptResourcesOptions, 'interpreters' | 'pythonLimits' | 'spark'> = {
  interpreters: {
    acquire: () => Promise.reject(new Error('there is no Python')),
    sandbox: () => null,
    chosen: Promise.resolve(),
    stop: () => Promise.resolve(),
  },
  pythonLimits: { memoryBytes: 1, seconds: 1 },
  spark: null,
}
