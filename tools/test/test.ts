/**
 * `npm test`: the tests that need only Node and npm, in some minutes. `npm test -- <part>` runs one part of `parts`. After
 * `unit`, `e2e`, `faults` and `security`, patterns select the matching files.
 */
import { runChecks } from '../check/checks.ts'
import { inScratch, memoryDirectory } from '../kit/scratch.ts'
import { Tally } from '../kit/tally.ts'
import { runClock, runEndToEnd, runFaults, runFuzz, runSecurity } from './e2e.ts'
import { PROCESSES, runUnitTests } from './unit.ts'

const [part, ...patterns] = process.argv.slice(2)
const tally = new Tally()
const usual: Record<string, () => Promise<void>> = {
  check: () => runChecks(tally),
  unit: () => runUnitTests(tally, patterns),
  e2e: () => runEndToEnd(tally, { title: 'End-to-end tests', files: patterns }),
}
/**
 * The additional parts wait for real time, or kill, pause and attack processes. They take long, so CI runs them after the usual
 * parts.
 */
const parts = {
  ...usual,
  clock: () => runClock(tally),
  faults: () => runFaults(tally, patterns),
  fuzz: () => runFuzz(tally),
  processes: () => runUnitTests(tally, PROCESSES),
  security: () => runSecurity(tally, { python: 'required', files: patterns }),
}

if (part !== undefined && !(part in parts)) {
  console.error(
    `unknown part '${part}': use ${Object.keys(parts).join(', ')}, or no argument for the usual parts`,
  )
  process.exit(2)
}
const isUsual = part === undefined || part in usual
await inScratch(
  async () => {
    for (const [name, runPart] of Object.entries(part === undefined ? usual : parts))
      if (part === undefined || part === name) await runPart()
    return tally.conclude()
  },
  isUsual ? { parent: memoryDirectory() } : {},
)
