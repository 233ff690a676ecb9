/** `node .setup/bun.mjs <arguments>`: the pinned Bun, as if it had been called itself. */
import { spawn } from 'node:child_process'
import { bunPath, setUpOrExit } from './setup.mjs'

// npm skips the pre-scripts that set up when scripts are disabled.
setUpOrExit()

const child = spawn(bunPath, process.argv.slice(2), { stdio: 'inherit' })
child.on('error', (error) => {
  process.stderr.write(`Bun could not be started: ${error.message}\n`)
  process.exit(1)
})

const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP']
for (const signal of SIGNALS) {
  // A terminal sends Ctrl-C to Bun as well, so passing it on would make two of it.
  process.on(signal, () => (signal === 'SIGINT' && process.stdin.isTTY) || child.kill(signal))
}
// A shell between npm and us dies of a signal without passing it on.
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
