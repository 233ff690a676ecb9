// What an engine process is first: it takes from itself what engines must not have, and becomes the engine. Landlock
// judges threads, and what they become: a program that is restricted before it begins has no thread that is not.
import assert from 'node:assert'
import { writeFileSync } from 'node:fs'
import { getPriority, setPriority } from 'node:os'
import { openKernel } from './kernel.ts'
import type { WallSpec } from './wall.ts'

try {
  const [, , argument] = process.argv
  assert(argument !== undefined, 'the specification of the wall is missing')
  const spec = JSON.parse(argument) as WallSpec
  const kernel = openKernel()
  // Should memory run out, it is better to lose an engine than the service.
  try {
    writeFileSync('/proc/self/oom_score_adj', '1000')
  } catch {}
  // A service that was started with `nice` may not raise the priority of its engines again.
  try {
    if (getPriority() < spec.niceness) setPriority(spec.niceness)
  } catch {}
  for (const [name, value] of spec.limits) kernel.limit(name, value)
  kernel.dropCapabilities()
  kernel.settle()
  if (spec.places !== null) kernel.seeOnly(spec.places)
  kernel.become(spec.command, spec.env, spec.channel)
} catch (error) {
  process.stderr.write(`engine process: ${error instanceof Error ? error.message : String(error)}\n`)
  process.exit(1)
}
