// Preloaded in an engine process, after its last `execve` and before any other code. From then on, none of its threads can make
// a system call that is not on the list.
// The engine counts its bytes through a file that this module opens before the filter.
import '../core/own-io.ts'
import { openKernel } from './kernel.ts'
import { filterProgram } from './system-calls.ts'

try {
  const program = filterProgram(process.arch, { ownsOthers: true, passesFiles: true })
  if (program === null) throw new Error(`no system call filter for ${process.arch}`)
  openKernel().filter(program)
} catch (error) {
  process.stderr.write(`engine process: ${error instanceof Error ? error.message : String(error)}\n`)
  process.exit(1)
}
