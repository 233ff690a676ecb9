import { afterAll, beforeAll, expect, test } from 'bun:test'
import { existsSync, readFileSync, statSync } from 'node:fs'
import { connect } from 'node:net'
import { dirname } from 'node:path'
import { until } from '../../tools/kit/until.ts'
import { eachLine } from '../supervisor/lines.ts'
import { networkProgram, type OwnNetwork, openNetwork } from './network.ts'

/** A program that listens as Sail does. It answers with the result of its own request to the port in the path. */
const PROGRAM = `
import http.server, sys, urllib.request
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        try:
            body = urllib.request.urlopen("http://127.0.0.1:" + self.path[1:], timeout=5).read()
        except Exception as error:
            body = ("refused: " + str(error)).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *words):
        pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler)
print("ready", file=sys.stderr, flush=True)
server.serve_forever()
`
/** The interpreter itself: a launcher in the PATH may start others. */
const python = Bun.which('python3') && executableOf('python3')
function executableOf(name: string): string {
  const command = [name, '-c', 'import sys; print(sys.executable)']
  return Bun.spawnSync(command).stdout.toString().trim()
}
const program = networkProgram()
const isRoot = process.getuid?.() === 0

const serve = (text: string) => Bun.serve({ hostname: '127.0.0.1', port: 0, fetch: () => new Response(text) })
let api: ReturnType<typeof serve>
let other: ReturnType<typeof serve>
let network: OwnNetwork
let child: Bun.Subprocess<'ignore', 'ignore', 'pipe'>

const isPossible = program !== null && python !== null

/** Starts the program in a network of its own; resolves with its process id when it listens. */
async function start() {
  const opened = await openNetwork(program ?? '', `http://127.0.0.1:${api.port}/iceberg`)
  const command = opened.within(python ?? '', [python ?? '', '-c', PROGRAM, String(opened.port)])
  const started = Bun.spawn(command, { stdin: 'ignore', stdout: 'ignore', stderr: 'pipe' })
  const ready = Promise.withResolvers<void>()
  let id = 0
  void eachLine(started.stderr, (line) => {
    id = Number(/^process (\d+)$/.exec(line)?.[1] ?? id)
    if (line === 'ready') ready.resolve()
  })
  await ready.promise
  return { network: opened, child: started, id }
}

beforeAll(async () => {
  if (!isPossible) return
  api = serve('the api')
  other = serve('another service')
  const started = await start()
  network = started.network
  child = started.child
})
afterAll(async () => {
  child?.kill('SIGKILL')
  await child?.exited
  await network?.close()
  await Promise.all([api?.stop(true), other?.stop(true)])
})

const asked = async (port: number | undefined) =>
  (await fetch(`http://127.0.0.1/${port}`, { unix: network.socket })).text()

test.if(isPossible)('the socket leads to the program, and the program reaches the API only', async () => {
  expect(await asked(api.port)).toBe('the api')
  expect(await asked(other.port)).toStartWith('refused: ')
})

test.if(isPossible)('the program listens on no port of this machine', async () => {
  const refused = Promise.withResolvers<unknown>()
  connect({ host: '127.0.0.1', port: network.port }, () => refused.resolve('connected')).once(
    'error',
    ({ message }) => refused.resolve(message),
  )
  expect(await refused.promise).not.toBe('connected')
})

test.if(isPossible)('only the user of the runner reaches both sockets', () => {
  const directory = dirname(network.socket)
  expect(statSync(directory).mode & 0o777).toBe(0o700)
  for (const name of ['sail', 'api']) expect(statSync(`${directory}/${name}`).mode & 0o777).toBe(0o600)
})

test.if(isPossible && isRoot)('another user of this machine does not reach the socket', () => {
  const look = ['sh', '-c', 'test -S "$0" && echo reached || echo hidden', network.socket]
  const stranger = ['setpriv', '--reuid=65534', '--regid=65534', '--clear-groups']
  const answerOf = (command: string[]) => Bun.spawnSync(command).stdout.toString().trim()
  expect([answerOf(look), answerOf([...stranger, ...look])]).toEqual(['reached', 'hidden'])
})

test.if(isPossible)('an API on another machine is refused with the next step', async () => {
  await expect(openNetwork(program ?? '', 'https://api.example')).rejects.toThrow(
    'set SPARK_REMOTE, or SANDBOX=off',
  )
})

const parentOf = (pid: number) => Number(readFileSync(`/proc/${pid}/stat`, 'utf8').split(' ')[3])

test.if(isPossible)('a killed process takes the others with it, whichever it is', async () => {
  for (const chosen of ['sandbox', 'relay', 'program'] as const) {
    const { network: own, child: sandbox, id } = await start()
    const pids = { sandbox: sandbox.pid, relay: parentOf(id), program: id }
    process.kill(pids[chosen], 'SIGKILL')
    await sandbox.exited
    await until(
      () => Object.values(pids).filter((pid) => existsSync(`/proc/${pid}/cwd`)),
      (alive) => alive.length === 0,
    )
    await own.close()
  }
})
