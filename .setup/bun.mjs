/** `node .setup/bun.mjs <arguments>` executes the pinned Bun with these arguments. */
import { spawn } from 'node:child_process'
import { bunPath, setUpOrExit } from './setup.mjs'

// npm skips the pre-scripts that set up this checkout if scripts are disabled.
setUpOrExit()

const child = spawn(bunPath, process.argv.slice(2), { stdio: 'inherit' })
child.on('error', (error) => {
  process.stderr.write(`Bun could not be started: ${error.message}\n`)
  process.exit(1)
})

const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP']
for (const signal of SIGNALS) {
  // A terminal sends Ctrl-C to Bun as well. Forwarding the signal would send it twice.
  process.on(signal, () => (signal === 'SIGINT' && process.stdin.isTTY) || child.kill(signal))
}
// A shell between npm and this process may die of a signal without forwarding the signal.
const parent = process.ppid
const orphaned = setInterval(() => {
  if (process.ppid === parent) return
  clearInterval(orphaned)
  child.kill('SIGTERM')
}, 500)

child.on('exit', (code, signal) => {
  if (signal === null) process.exit(code)
  for (const handled of SIGNALS) process.removeAllListeners(handled)
  process.kill(process.pid, signal)
})
