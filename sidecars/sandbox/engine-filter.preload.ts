// Loaded in an engine process before all else, when the last program it may become is there: from here on, no thread of it
// makes a system call that is not on the list.
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
