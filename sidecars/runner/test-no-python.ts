// For tests of SQL: a runner on a machine without Python.
import type { WorkplaceOptions } from './attempt/workplace.ts'

export const noPython: Pick<WorkplaceOptions, 'interpreters' | 'pythonLimits'> = {
  interpreters: {
    take: () => Promise.reject(new Error('there is no Python')),
    sandbox: () => null,
    chosen: Promise.resolve(),
    stop: () => Promise.resolve(),
  },
  pythonLimits: { memoryBytes: 1, seconds: 1 },
}
