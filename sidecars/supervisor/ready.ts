/** Waits until the tree is ready. The supervisor polls health addresses; the children send no message to it. */
import { bearerOf } from '../../proto/sidecar-token.ts'
import { messageOf } from './refusal.ts'
import type { Settings } from './settings.ts'

const POLL_MS = 50
/** After this time the supervisor logs the missing part. */
const PATIENCE_MS = 15_000
const ANSWER_LIMIT_MS = 5_000

/**
 * Resolves when the API runs, the sidecar at each of `sidecarPorts` serves, and `/health/ready` succeeds. That endpoint checks
 * all dependencies.
 */
export async function untilReady(
  { localUrl: url, sidecarToken }: Pick<Settings, 'localUrl' | 'sidecarToken'>,
  sidecarPorts: number[],
  warn: (message: string) => void,
) {
  let problem: string | undefined
  const patience = setTimeout(() => warn(`not ready after ${PATIENCE_MS / 1_000} s: ${problem}`), PATIENCE_MS)
  const wait = async (ask: () => Promise<string | undefined>) => {
    for (;;) {
      problem = await ask()
      if (problem === undefined) return
      await Bun.sleep(POLL_MS)
    }
  }
  await wait(() => problemAt(`${url}/health`))
  // Checks the sidecars before `/health/ready`. Otherwise the API would log every sidecar that takes a moment longer to start.
  for (const port of sidecarPorts) await wait(() => problemOfSidecar(port, sidecarToken))
  await wait(() => problemAt(`${url}/health/ready`))
  clearTimeout(patience)
}

/** Why the sidecar does not serve, or undefined. Uses the standard health service, in the JSON of the Connect protocol. */
export function problemOfSidecar(port: number, token: string) {
  const headers = { 'content-type': 'application/json', authorization: bearerOf(token) }
  const url = `http://127.0.0.1:${port}/grpc.health.v1.Health/Check`
  return problemAt(url, { method: 'POST', headers, body: '{}' }, '"SERVING"')
}

/** Why the address does not answer with success, or undefined. */
export async function problemAt(
  url: string,
  request?: RequestInit,
  expected = '',
): Promise<string | undefined> {
  try {
    const response = await fetch(url, { ...request, signal: AbortSignal.timeout(ANSWER_LIMIT_MS) })
    const text = await response.text()
    return response.ok && text.includes(expected) ? undefined : `${url} answers ${text}`
  } catch (error) {
    return `${url}: ${messageOf(error)}`
  }
}
