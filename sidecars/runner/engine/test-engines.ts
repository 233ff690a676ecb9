// For tests: engines of runs, in the strongest sandbox that works on this machine.
import { join } from 'node:path'
import { silent } from '../../core/testing.ts'
import { makeShares } from '../../engine/shares.ts'
import { chooseEngineSandbox, type EngineSandbox } from '../../sandbox/engine-sandbox.ts'
import { makeRunEngines, type RunEnginesOptions } from './engine-leases.ts'

const MIB = 1_048_576
export const TEST_SIZE = { threads: 1, memoryLimitBytes: 100 * MIB, tempLimitBytes: MIB }

const floor = { memoryBytes: TEST_SIZE.memoryLimitBytes, threads: TEST_SIZE.threads }
/** Every engine has the least size. */
const testShares = makeShares({
  total: { memoryBytes: 2 * floor.memoryBytes, threads: 2 },
  floor,
  concurrency: 2,
  availableBytes: () => Number.POSITIVE_INFINITY,
})

export const testSandbox = (readable: string[] = []): Promise<EngineSandbox> =>
  chooseEngineSandbox('auto', { readable, writable: [] }, silent)

export const testEngines = (
  directory: string,
  sandbox: EngineSandbox,
  more: Partial<RunEnginesOptions> = {},
) =>
  makeRunEngines({
    directory: join(directory, 'engines'),
    inputs: join(directory, 'inputs'),
    size: TEST_SIZE,
    shares: testShares,
    leasesMax: 2,
    sandbox,
    log: silent,
    ...more,
  })
