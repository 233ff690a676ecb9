/**
 * `npm run test:runtimes`: runs the end-to-end tests with the tag `@runtime`, with the API on Node and on Deno. They are at most
 * 25, because the portable `fetch` behind them is the same. They touch sockets, streams, uploads, aborted requests, headers,
 * compression, Connect, gRPC, S3 signatures, large bodies and paths. Each service must also stop in time.
 *
 * Node is the installation that runs npm. Deno is installed when it is missing.
 */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import { insisting } from '../install/installing.ts'
import { run } from '../kit/run.ts'
import { inScratch } from '../kit/scratch.ts'
import { Tally } from '../kit/tally.ts'
import { runEndToEnd } from './e2e.ts'

const DENO = 'deno@2.9.6'
const INSTALL_LIMIT_MS = 5 * 60_000
/** End-to-end tests of what the runtimes do differently. */
const TAG = '@runtime'

await inScratch(async () => {
  const tally = new Tally()
  const requested = process.argv.slice(2)
  const isRequested = (runtime: string) => requested.length === 0 || requested.includes(runtime)
  const scratch = await mkdtemp(join(tmpdir(), 'sluice-deno-'))
  try {
    if (isRequested('node'))
      await runEndToEnd(tally, {
        title: 'End-to-end tests with the API on Node',
        env: { API_RUNTIME: 'node' },
        tag: TAG,
      })
    if (isRequested('deno')) {
      let path: string | undefined
      tally.heading('Requirements')
      await tally.check('Deno', async () => {
        path = await pathWithDeno(scratch)
        return undefined
      })
      if (path)
        await runEndToEnd(tally, {
          title: 'End-to-end tests with the API on Deno',
          env: { API_RUNTIME: 'deno', PATH: path },
          tag: TAG,
        })
    }
  } finally {
    await rm(scratch, { recursive: true, force: true })
  }
  return tally.conclude()
})

/** Returns a PATH with Deno. Installs Deno from npm when the current PATH has none. */
async function pathWithDeno(folder: string): Promise<string> {
  const path = process.env.PATH ?? ''
  if (Bun.which('deno')) return path
  const install = [
    'npm',
    'install',
    `--prefix=${folder}`,
    '--no-audit',
    '--no-fund',
    '--include=optional',
    DENO,
  ]
  await insisting('npm install deno', async () => {
    const { code, output } = await run({ command: install, limitMs: INSTALL_LIMIT_MS })
    if (code !== 0) throw new Error(output)
  })
  return [join(folder, 'node_modules', '.bin'), path].join(delimiter)
}
