/** `npm test`: everything that needs only Node and npm. `npm test -- check|unit|e2e|faults` runs one part, `-- unit <pattern>` less. */
import { runChecks } from './checks.ts'
import { runEndToEnd, runFaults } from './e2e.ts'
import { inScratch } from './scratch.ts'
import { Tally } from './tally.ts'
import { runUnitTests } from './unit.ts'

const [part, ...patterns] = process.argv.slice(2)
const tally = new Tally()
const parts: Record<string, () => Promise<void>> = {
  check: () => runChecks(tally),
  unit: () => runUnitTests(tally, patterns),
  e2e: () => runEndToEnd(tally, { title: 'End-to-end tests', browser: 'if found' }),
  faults: () => runFaults(tally),
}

if (part !== undefined && !(part in parts)) {
  console.error(
    `There is no part '${part}': use ${Object.keys(parts).join(', ')}, or nothing for all of them.`,
  )
  process.exit(2)
}
await inScratch(async () => {
  for (const [name, runPart] of Object.entries(parts))
    if (part === undefined || part === name) await runPart()
  return tally.conclude()
})
