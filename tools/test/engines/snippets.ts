/** Executes the commands that the console shows for a table, against a service that needs a key and a service that needs none. */
import { mkdtemp } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { type Engine, snippetOf, warehouseOf } from '../../../console/pages/lake/snippets.ts'
import { run } from '../../kit/run.ts'
import type { Tally } from '../../kit/tally.ts'
import { startService } from '../../service/service.ts'
import { call, runWith } from './tables.ts'

const SCRIPT = join(import.meta.dirname, 'snippets.py')
/** Only an engine that hangs takes longer. */
const LIMIT_MS = 10 * 60_000
const KEY = 'snippet-key-0123456789'
/** A name that engines read as something else unless it is quoted. */
const TABLE = { ns: 'default', layer: 'gold', name: '2024-totals' }
const SHOWN = 'shown by the snippet'
const BRANCH = 'snippet-branch'

/** Each engine reads with and without a key, on main and on a branch. `python` has the packages of the engines. */
export async function judgeSnippets(
  tally: Tally,
  { python, engines }: { python: string; engines: readonly Engine[] },
): Promise<void> {
  tally.heading(`Commands that the console shows for ${engines.join(' and ')}`)
  const directory = await mkdtemp(join(tmpdir(), 'sluice-snippets-'))
  for (const key of [undefined, KEY])
    await tally.check(`a service ${key ? 'with a key' : 'without keys'} is read`, async () => {
      const service = await startService(key === undefined ? {} : { PLATFORM_API_KEY: key })
      try {
        await makeTable(service.url, key)
        for (const engine of engines)
          for (const branch of ['', BRANCH]) {
            const fault = await faultOf({ python, directory, engine, branch, url: service.url, key })
            if (fault !== undefined) return fault
          }
        return undefined
      } finally {
        await service.stop()
      }
    })
}

async function makeTable(url: string, key: string | undefined) {
  const headers: Record<string, string> = key === undefined ? {} : { 'x-api-key': key }
  const { ns: namespace, layer, name } = TABLE
  await call(url, 'POST', '/pipelines', { namespace, layer, name, type: 'sql' }, headers)
  await runWith(url, name, `select '${SHOWN}' as text`, headers)
  await call(url, 'POST', '/branches', { name: BRANCH }, headers)
}

interface Shown {
  python: string
  /** The engines store files here. */
  directory: string
  engine: Engine
  branch: string
  url: string
  key: string | undefined
}

/** The output of commands that do not show the row of the table; undefined: they show the row. */
async function faultOf({ python, directory, engine, branch, url, key }: Shown): Promise<string | undefined> {
  const snippet = snippetOf(engine, TABLE, {
    uri: `${url}/iceberg`,
    warehouse: warehouseOf(branch),
    hasKey: key !== undefined,
  })
  const text = snippet.replace(/\bKEY\b/, String(key))
  const command = engine === 'spark' ? ['bash', '-c', text] : [python, SCRIPT, engine, text, directory]
  const { code, output } = await run({
    command,
    // Spark stores its own files where it starts, and by default opens ports to other machines.
    cwd: directory,
    env: { PATH: `${dirname(python)}:${process.env.PATH}`, SPARK_LOCAL_IP: '127.0.0.1' },
    limitMs: LIMIT_MS,
  })
  return code === 0 && output.includes(SHOWN) ? undefined : `${snippet}\n${output}`
}
