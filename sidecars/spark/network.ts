// A network of its own for Sail. Sail asks nobody for a credential, and a port on loopback is open to every user of the machine.
// So Sail listens where only the runner's socket leads, and reaches the API through another socket.
import { chmod, mkdtemp, rm } from 'node:fs/promises'
import { connect, createServer, type Server } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { SparkLost } from './failure.ts'

const RELAY = join(import.meta.dir, 'network.py')
/** Names under which the API is reached inside of the network, where only loopback exists. */
const LOOPBACK: ReadonlySet<string> = new Set(['127.0.0.1', 'localhost'])
const PORT = 15_002

/** Creates a network with nothing but loopback. */
const namespace = (bwrap: string) => [bwrap, '--unshare-net', '--die-with-parent', '--dev-bind', '/', '/']

/** The program that creates networks; null: this machine cannot create one. */
export function networkProgram(): string | null {
  const bwrap = Bun.which('bwrap')
  if (bwrap === null) return null
  const { success } = Bun.spawnSync([...namespace(bwrap), 'true'], { stdout: 'ignore', stderr: 'ignore' })
  return success ? bwrap : null
}

export interface OwnNetwork {
  /** The socket that leads to the program. Only the user of the runner may open it. */
  socket: string
  /** The port on which the program listens inside of the network. */
  port: number
  /** The command that starts a program inside of the network. Its first line of errors is `process` and its id. */
  within(python: string, command: readonly string[]): string[]
  close(): Promise<void>
}

/** Makes a network from which only the API at `origin` is reached. Throws SparkLost for an API that is not on this machine. */
export async function openNetwork(bwrap: string, origin: string): Promise<OwnNetwork> {
  const { hostname, port: givenPort } = new URL(origin)
  if (!LOOPBACK.has(hostname))
    throw new SparkLost(
      `Sail reaches an API on its own machine only, and ${hostname} is another one: set SPARK_REMOTE, or SANDBOX=off`,
    )
  const apiPort = Number(givenPort)
  const port = apiPort === PORT ? PORT + 1 : PORT
  // Paths of sockets are short, so the directory is not that of the run.
  const directory = await mkdtemp(join(tmpdir(), 'sluice-sail-'))
  const socket = join(directory, 'sail')
  const api = join(directory, 'api')
  const server = await serving(api, hostname, apiPort)
  return {
    socket,
    port,
    within: (python, command) => [
      ...namespace(bwrap),
      python,
      '-I',
      RELAY,
      socket,
      String(port),
      api,
      String(apiPort),
      ...command,
    ],
    async close() {
      server.close()
      await rm(directory, { recursive: true, force: true })
    },
  }
}

/** Forwards connections of a socket of the mode 0600 to a port. */
async function serving(path: string, host: string, port: number): Promise<Server> {
  const server = createServer({ allowHalfOpen: true }, (client) => {
    const upstream = connect({ host, port, allowHalfOpen: true })
    client.pipe(upstream).pipe(client)
    client.on('error', () => upstream.destroy())
    upstream.on('error', () => client.destroy())
    client.on('close', () => upstream.destroy())
  })
  await new Promise<void>((resolve, reject) => server.once('error', reject).listen(path, resolve))
  await chmod(path, 0o600)
  return server
}
