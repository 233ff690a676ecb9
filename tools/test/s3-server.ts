/**
 * A real S3 server with versioning for the interop suite: versitygw, built by Go on first use
 * (docs/adr/0004-s3-server-in-tests.md).
 *
 * Manual use: `bun tools/test/s3-server.ts bun test ./app/objects/s3.interop.ts`.
 */
import { randomBytes } from 'node:crypto'
import { existsSync } from 'node:fs'
import { mkdir, mkdtemp, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { freePort } from '../../sidecars/supervisor/ports.ts'
import { insisting } from './installing.ts'
import { endWith } from './scratch.ts'

const VERSION = 'v1.8.0'
const READY_DEADLINE_MS = 120_000
const POLL_MS = 25
const BUILD_LIMIT_MS = 10 * 60_000

const tools = join(import.meta.dirname, '..', '..', '.bun', 'tools')
const binary = join(tools, `versitygw-${VERSION}`)

export interface S3Server {
  /** Settings of Sluice: S3_ENDPOINT, S3_BUCKET, S3_REGION, S3_ACCESS_KEY_ID, S3_SECRET_ACCESS_KEY. */
  env: Record<string, string>
  /** Stops the server and removes its data. */
  stop(): Promise<void>
}

/** Starts an empty server on loopback, without the bucket. Throws when the server cannot be built or started. */
export async function startS3Server(): Promise<S3Server> {
  if (!existsSync(binary)) await insisting('building the S3 server', build)
  // The data is not in the temporary directory: the server needs extended attributes, which older tmpfs lacks.
  const home = await mkdtemp(join(tools, 's3-'))
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

/** Builds in a separate folder and then moves the binary, so that an incomplete binary never runs. */
async function build(): Promise<void> {
  if (!Bun.which('go')) throw new Error(`versitygw ${VERSION}: the build needs Go, which is not installed`)
  await mkdir(tools, { recursive: true })
  const target = await mkdtemp(join(tools, 'build-'))
  try {
    const source = `github.com/versity/versitygw/cmd/versitygw@${VERSION}`
    process.stderr.write(`Building the S3 server (${source}), once\n`)
    const go = Bun.spawn(['go', 'install', source], {
      env: { ...process.env, GOBIN: target },
      timeout: BUILD_LIMIT_MS,
      stdout: 'ignore',
      stderr: 'pipe',
    })
    const [errorOutput, code] = await Promise.all([new Response(go.stderr).text(), go.exited])
    if (code !== 0) throw new Error(`go install ${source} failed:\n${errorOutput.slice(-2000)}`)
    await rename(join(target, 'versitygw'), binary)
  } finally {
    await rm(target, { recursive: true, force: true })
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
