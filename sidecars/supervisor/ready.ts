/** When the tree is ready: children are told nothing and need to tell us nothing, their ports and the API's health are asked. */
import { connect } from 'node:net'
import { messageOf } from './refusal.ts'

const FIRST_POLL_MS = 15
/** A service that is not ready is asked less and less often: each question is a line in its log. */
const POLL_GROWTH = 1.5
const POLL_LIMIT_MS = 1_000
/** After this time we say what is missing. */
const PATIENCE_MS = 15_000

/**
 * Resolves when `/health` answers, every port of `sidecarPorts` takes connections and `/health/ready`, which knows all
 * dependencies, agrees.
 */
export async function untilReady(url: string, sidecarPorts: number[], warn: (message: string) => void) {
  const patience = setTimeout(() => warn(`still not ready: ${problem}`), PATIENCE_MS)
  let problem: string | undefined
  const wait = async (ask: () => Promise<string | undefined>, growth: number) => {
    for (let pauseMs = FIRST_POLL_MS; ; pauseMs = Math.min(pauseMs * growth, POLL_LIMIT_MS)) {
      problem = await ask()
      if (problem === undefined) return
      await Bun.sleep(pauseMs)
    }
  }
  await wait(() => problemAt(`${url}/health`), 1)
  for (const port of sidecarPorts) await wait(() => problemConnecting(port), 1)
  await wait(() => problemAt(`${url}/health/ready`), POLL_GROWTH)
  clearTimeout(patience)
}

async function problemAt(url: string): Promise<string | undefined> {
  try {
    const response = await fetch(url, { signal: AbortSignal.timeout(PATIENCE_MS) })
    const text = await response.text()
    return response.ok ? undefined : `${url} answers ${text}`
  } catch (error) {
    return `${url}: ${messageOf(error)}`
  }
}

const problemConnecting = (port: number) =>
  new Promise<string | undefined>((resolve) => {
    const socket = connect(port, '127.0.0.1')
    socket.once('connect', () => {
      socket.destroy()
      resolve(undefined)
    })
    socket.once('error', (error) => resolve(`port ${port}: ${error.message}`))
  })
