/**
 * A real S3 server with versioning for the interop suite: versitygw, built by Go on first use
 * (docs/adr/0004-s3-server-in-tests.md).
 *
 * Manual use: `bun tools/service/s3-server.ts bun test ./app/objects/s3.interop.ts`.
 */
import { randomBytes } from 'node:crypto'
import { mkdir, mkdtemp, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { freePort } from '../../sidecars/supervisor/ports.ts'
import { goProgram, toolsFolder } from '../install/go.ts'
import { endWith } from '../kit/scratch.ts'

/** The version of versitygw, here and in tools/packages/compose.yaml. */
export const VERSION = 'v1.8.0'
const SOURCE = 'github.com/versity/versitygw/cmd/versitygw'
const READY_DEADLINE_MS = 120_000
const POLL_MS = 25

interface S3Server {
  /** Settings of Sluice: S3_ENDPOINT, S3_BUCKET, S3_REGION, S3_ACCESS_KEY_ID, S3_SECRET_ACCESS_KEY. */
  env: Record<string, string>
  /** Stops the server and removes its data. */
  stop(): Promise<void>
}

/** Starts an empty server on loopback, without the bucket. Throws when the server cannot be built or started. */
export async function startS3Server(): Promise<S3Server> {
  const binary = await goProgram('versitygw', { source: SOURCE, version: VERSION })
  // The data is not in the temporary directory: the server needs extended attributes, which older tmpfs lacks.
  const home = await mkdtemp(join(toolsFolder, 's3-'))
  const [data, versions] = [join(home, 'data'), join(home, 'versions')]
  await Promise.all([mkdir(data), mkdir(versions)])
  const address = `127.0.0.1:${await freePort()}`
  const [accessKey, secretKey] = [randomBytes(10).toString('hex'), randomBytes(20).toString('hex')]
  const server = Bun.spawn(
    [binary, '--port', address, '--quiet', '--keep-alive', 'posix', '--versioning-dir', versions, data],
    {
      env: { ROOT_ACCESS_KEY_ID: accessKey, ROOT_SECRET_ACCESS_KEY: secretKey, HOME: home },
      stdout: 'ignore',
      stderr: 'pipe',
    },
  )
  const errorOutput = new Response(server.stderr).text()
  const stop = async () => {
    cancelCleanup()
    server.kill()
    await server.exited
    await rm(home, { recursive: true, force: true })
  }
  const cancelCleanup = endWith(stop)
  try {
    await answering(`http://${address}/`, server)
  } catch (error) {
    await stop()
    throw new Error(`versitygw ${VERSION} did not start: ${await errorOutput}`, { cause: error })
  }
  return {
    env: {
      S3_ENDPOINT: `http://${address}`,
      S3_BUCKET: 'sluice',
      S3_REGION: 'us-east-1',
      S3_ACCESS_KEY_ID: accessKey,
      S3_SECRET_ACCESS_KEY: secretKey,
    },
    stop,
  }
}

/** Waits until the server responds. Any HTTP status counts, since a request without a signature is rejected. */
async function answering(url: string, server: Bun.Subprocess): Promise<void> {
  const deadline = performance.now() + READY_DEADLINE_MS
  while (server.exitCode === null && performance.now() < deadline) {
    const answer = await fetch(url).catch(() => null)
    if (answer) return
    await Bun.sleep(POLL_MS)
  }
  throw new Error(
    server.exitCode === null
      ? `the server did not answer within ${READY_DEADLINE_MS / 1_000} s`
      : `exit code ${server.exitCode}`,
  )
}

if (import.meta.main) {
  const command = process.argv.slice(2)
  const { env, stop } = await startS3Server()
  try {
    const child = Bun.spawn(command, {
      env: { ...process.env, ...env },
      stdio: ['inherit', 'inherit', 'inherit'],
    })
    process.exitCode = await child.exited
  } finally {
    await stop()
  }
}
