// Stands in for an engine while the service tries a sandbox. Fails unless the sandbox confines it completely.
import { readdirSync, readFileSync } from 'node:fs'

const status = readFileSync('/proc/self/status', 'utf8')
const EXPECTED = [/^NoNewPrivs:\t1$/m, /^Seccomp:\t2$/m, /^CapEff:\t0+$/m]
const isAsExpected = EXPECTED.every((line) => line.test(status))

function seesTheRoot(): boolean {
  try {
    return readdirSync('/').length > 0
  } catch {
    return false
  }
}

if (!isAsExpected || (process.argv[2] === 'landlock' && seesTheRoot())) {
  process.stderr.write('engine process: not confined, although the kernel reports the sandbox\n')
  process.exit(1)
}
