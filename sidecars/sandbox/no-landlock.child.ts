// For tests: starts a command and ends with it, on a simulated kernel that reports Landlock but refuses to apply it (EPERM).
import { openKernel } from './kernel.ts'
import type { Instruction } from './system-calls.ts'

const LANDLOCK_RESTRICT_SELF = 446
const refuseLandlock: Instruction[] = [
  // Loads the number of the system call.
  [0x20, 0, 0, 0],
  [0x15, 0, 1, LANDLOCK_RESTRICT_SELF],
  // Fails with EPERM. Every other call is allowed.
  [0x06, 0, 0, 0x00050001],
  [0x06, 0, 0, 0x7fff0000],
]
const kernel = openKernel()
kernel.settle()
kernel.filter(refuseLandlock)
const child = Bun.spawn(process.argv.slice(2), { stdio: ['inherit', 'inherit', 'inherit'] })
process.exit(await child.exited)
