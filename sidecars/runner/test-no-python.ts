// For tests of SQL: a runner on a machine without Python.
import type { AttemptResourcesOptions } from './attempt/attempt-resources.ts'

export const noPython: Pick<AttemptResourcesOptions, 'interpreters' | 'pythonLimits'> = {
  interpreters: {
    acquire: () => Promise.reject(new Error('there is no Python')),
    sandbox: () => null,
    chosen: Promise.resolve(),
    stop: () => Promise.resolve(),
  },
  pythonLimits: { memoryBytes: 1, seconds: 1 },
}
