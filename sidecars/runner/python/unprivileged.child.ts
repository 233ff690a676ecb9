// A runner that is not root, as `hostile.test.ts` starts it: runs one source on one step, and tells as JSON what came out.
import type { SandboxStep } from '../../sandbox/ladder.ts'
import { openBench } from './testing.ts'

const [step, source] = process.argv.slice(2)
const bench = await openBench(step as SandboxStep)
const found = bench.interpreters.sandbox()
const ran = found !== null && 'step' in found ? await bench.run(source ?? '') : null
await bench.close()
process.stdout.write(JSON.stringify({ uid: process.getuid?.(), found, ran }))
process.exit(0)
