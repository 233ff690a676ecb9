/**
 * The entry of the executable `sluice`. The executable contains every entry file of the service. A command names one of them.
 * Processes that the service starts by path (`process.execPath` and an entry file) name theirs in the same way.
 */
import { dirname, relative, resolve } from 'node:path'
import { problemAt, problemOfSidecar } from '../../sidecars/supervisor/ready.ts'

/** Entry files of the commands, with the default ports of the servers. */
const COMMANDS: Record<string, { entry: string; port: string }> = {
  start: { entry: 'sidecars/supervisor/main.ts', port: '8080' },
  api: { entry: 'app/entry/main.ts', port: '8080' },
  runner: { entry: 'sidecars/runner/main.ts', port: '8081' },
  query: { entry: 'sidecars/query/main.ts', port: '8082' },
}
const USAGE = `usage: sluice start|api|runner|query, or sluice health api|runner|query\n`
/** Facts of the build, inserted by executable.ts. An operator may replace them by variables. */
declare const BUILD: Record<string, string>
/** The folder of the files inside an executable. */
const INSIDE = '/$bunfs/root'
const home = dirname(process.execPath)

for (const [fact, value] of Object.entries(BUILD)) process.env[fact] ??= value

const [name = '', ...rest] = process.argv.slice(2)
const command = COMMANDS[name]
if (name === 'health') await reportHealth(rest[0] ?? '')
else if (command !== undefined) await load(command.entry, rest)
else if (name === '--preload' && rest[0] !== undefined && rest[1] !== undefined) {
  await import(pathInside(rest[0]))
  await load(rest[1], rest.slice(2))
} else if (name.endsWith('.ts')) await load(name, rest)
else {
  process.stderr.write(USAGE)
  process.exit(name === '' || name === '--help' ? 0 : 64)
}

/** Runs an entry file. It sees its arguments at the same place as in a checkout. */
async function load(entry: string, args: readonly string[]) {
  process.argv.splice(2, process.argv.length, ...args)
  await import(pathInside(entry))
}

/** The compiled entry file. `entry` is relative to the folder of the executable, or absolute in it. */
function pathInside(entry: string) {
  return `${INSIDE}/${relative(home, resolve(home, entry)).replace(/\.ts$/, '.js')}`
}

/** Exits with 0 when the server of this container or machine is ready, else with 1 and the reason. */
async function reportHealth(part: string) {
  const server = COMMANDS[part]
  if (server === undefined) {
    process.stderr.write(USAGE)
    process.exit(64)
  }
  const port = Number(process.env.PORT ?? server.port)
  const problem = await (part === 'runner' || part === 'query'
    ? problemOfSidecar(port, process.env.SIDECAR_TOKEN ?? '')
    : problemAt(`http://127.0.0.1:${port}/health/ready`))
  if (problem === undefined) process.exit(0)
  process.stderr.write(`${problem}\n`)
  process.exit(1)
}
