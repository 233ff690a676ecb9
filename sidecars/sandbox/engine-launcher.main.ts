// The launcher of an engine process: drops rights that engines must not have, then executes the engine. Landlock restricts
// threads and the programs they execute. A program that is restricted before it starts has no unrestricted thread.
import assert from 'node:assert'
import { writeFileSync } from 'node:fs'
import { getPriority, setPriority } from 'node:os'
import type { EngineSandboxSpec } from './engine-sandbox.ts'
import { openKernel } from './kernel.ts'

try {
  const [, , argument] = process.argv
  assert(argument !== undefined, 'missing sandbox specification')
  const spec = JSON.parse(argument) as EngineSandboxSpec
  const kernel = openKernel()
  // If memory runs out, the kernel should kill an engine rather than the service.
  try {
    writeFileSync('/proc/self/oom_score_adj', '1000')
  } catch {}
  // A service that was started with `nice` may not raise the priority of its engines.
  try {
    if (getPriority() < spec.niceness) setPriority(spec.niceness)
  } catch {}
  for (const [name, value] of spec.limits) kernel.limit(name, value)
  kernel.dropCapabilities()
  kernel.settle()
  if (spec.places !== null) kernel.seeOnly(spec.places, spec.ports)
  const own = Object.entries(process.env).map(([name, value]) => `${name}=${value}`)
  kernel.become(spec.command, spec.env ?? own, spec.channel)
} catch (error) {
  process.stderr.write(`engine process: ${error instanceof Error ? error.message : String(error)}\n`)
  process.exit(1)
}
