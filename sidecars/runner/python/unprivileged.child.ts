// A runner that is not root, started by `hostile.test.ts`. It runs one source in one sandbox step, or attacks a neighbour
// there. It writes the outcome as JSON.
import type { SandboxStep } from '../../sandbox/ladder.ts'
import { attackNeighbour } from './test-neighbour.ts'
import { openBench } from './testing.ts'

const [step, source] = process.argv.slice(2)
const bench = await openBench(step as SandboxStep)
const found = bench.interpreters.sandbox()
const work = () =>
  source === 'neighbour'
    ? attackNeighbour(bench)
    : bench.run(source ?? '').catch((error: Error) => ({ error: error.message }))
const ran = found !== null && 'step' in found ? await work() : null
await bench.close()
process.stdout.write(JSON.stringify({ uid: process.getuid?.(), found, ran }))
process.exit(0)
