/**
 * `npm run test:clients`: checks the OpenAPI document with third-party tools. Two linters read the document. After a release,
 * oasdiff compares the document with the released one. A TypeScript and a Python client are generated and type-checked. Each client then performs one journey against a real service. The tools
 * are installed with exact versions, for this command only.
 */
import { existsSync } from 'node:fs'
import { copyFile, mkdtemp, readdir, readFile, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { goProgram } from '../install/go.ts'
import { insisting } from '../install/installing.ts'
import { pythonWith } from '../install/python.ts'
import { type RunOptions, run } from '../kit/run.ts'
import { inScratch } from '../kit/scratch.ts'
import { Tally } from '../kit/tally.ts'
import { type Service, startService } from '../service/service.ts'

const root = join(import.meta.dirname, '..', '..')
const DOCUMENT = join('docs', 'openapi.json')
/** The document of the last release; `npm run release:api` writes it. */
const RELEASED = join('docs', 'openapi-released.json')
const SOURCES = join(import.meta.dirname, 'clients')

const NODE_TOOLS = [
  '@redocly/cli@2.77.0',
  '@stoplight/spectral-cli@6.16.3',
  'openapi-typescript@7.13.0',
  'openapi-fetch@0.17.0',
]
const OASDIFF = { source: 'github.com/oasdiff/oasdiff', version: 'v1.38.0' }
const PYTHON_TOOLS = ['openapi-python-client==0.29.1', 'mypy==2.4.1']
/** The installation takes half a minute on an idle machine. */
const INSTALL_LIMIT_MS = 10 * 60_000
const STEP_LIMIT_MS = 3 * 60_000
const TYPESCRIPT = {
  compilerOptions: {
    target: 'ESNext',
    module: 'Preserve',
    moduleResolution: 'bundler',
    lib: ['ESNext', 'DOM'],
    types: ['bun-types'],
    typeRoots: [join(root, 'node_modules')],
    strict: true,
    allowImportingTsExtensions: true,
    noEmit: true,
  },
  files: ['journey.ts'],
}

await inScratch(async () => {
  const tally = new Tally()
  const folder = await mkdtemp(join(tmpdir(), 'sluice-clients-'))
  const tool = (name: string) => join(folder, 'node_modules', '.bin', name)
  let python: string | undefined

  tally.heading('Requirements')
  await tally.check('the linters and the TypeScript generator', async () => {
    await insisting('npm install', () => installNodeTools(folder))
    return undefined
  })
  await tally.check('the Python generator', async () => {
    python = await pythonWith(PYTHON_TOOLS)
    return undefined
  })

  tally.heading('OpenAPI document')
  await tally.check('redocly lint has no error and no warning', () => redocly(tool('redocly')))
  await tally.check('spectral has no result of any severity', () =>
    succeeds({ command: [tool('spectral'), 'lint', DOCUMENT, '--fail-severity=hint'], cwd: root }),
  )

  if (existsSync(join(root, RELEASED)))
    await tally.check('oasdiff finds no change that breaks clients of the last release', async () => {
      const oasdiff = await goProgram('oasdiff', OASDIFF)
      return succeeds({ command: [oasdiff, 'breaking', RELEASED, DOCUMENT, '--fail-on', 'ERR'], cwd: root })
    })

  tally.heading('Generated clients')
  const env: Record<string, string> = {}
  let service: Service | undefined
  await tally.check('the service starts', async () => {
    service = await startService()
    env.SLUICE_URL = service.url
    return undefined
  })
  await tally.check('TypeScript: generated from the document', async () => {
    await copyFile(join(SOURCES, 'journey.ts'), join(folder, 'journey.ts'))
    await writeFile(join(folder, 'tsconfig.json'), JSON.stringify(TYPESCRIPT))
    // With this option, fields with a default may be omitted from a request.
    const options = ['--default-non-nullable=false', '-o', join(folder, 'sluice.ts')]
    return succeeds({
      command: [tool('openapi-typescript'), DOCUMENT, ...options],
      cwd: root,
    })
  })
  await tally.check('TypeScript: the client passes the type check', () =>
    succeeds({ command: [join(root, 'node_modules', '.bin', 'tsc'), '--project', folder], cwd: folder }),
  )
  await tally.check('TypeScript: one journey', () =>
    succeeds({ command: [process.execPath, 'journey.ts'], cwd: folder, env }),
  )
  if (python) await pythonClient(tally, { folder, python, env })
  await tally.check('the service stops and leaves no process or file', async () => service?.stop())
  return tally.conclude()
})

async function pythonClient(
  tally: Tally,
  { folder, python, env }: { folder: string; python: string; env: Record<string, string> },
) {
  const generated = join(folder, 'sluice_client')
  await tally.check('Python: generated from the document', async () => {
    await copyFile(join(SOURCES, 'journey.py'), join(folder, 'journey.py'))
    const generate = [
      'generate',
      '--path',
      join(root, DOCUMENT),
      '--meta',
      'none',
      '--output-path',
      generated,
    ]
    return succeeds({ command: [join(python, '..', 'openapi-python-client'), ...generate], cwd: folder })
  })
  // For a schema without a title, the generator writes one file per response that repeats the schema.
  await tally.check('Python: at most one file of models per schema of the document', async () => {
    const { components } = JSON.parse(await readFile(join(root, DOCUMENT), 'utf8'))
    const schemas = Object.keys(components.schemas).length
    const models = (await readdir(join(generated, 'models'))).filter((name) => name !== '__init__.py')
    console.log(`  ${models.length} files of models, ${schemas} schemas`)
    return models.length <= schemas ? undefined : models.join('\n')
  })
  await tally.check('Python: the client passes the type check', () =>
    // The generator reuses a local variable in `Error` and `Snapshot`. mypy reports that inside the client, so it is silenced.
    succeeds({
      command: [python, '-m', 'mypy', '--strict', '--follow-imports=silent', 'journey.py'],
      cwd: folder,
    }),
  )
  await tally.check('Python: one journey', () =>
    succeeds({ command: [python, 'journey.py'], cwd: folder, env }),
  )
}

async function installNodeTools(folder: string) {
  const options = [`--prefix=${folder}`, '--no-audit', '--no-fund', '--ignore-scripts']
  const { code, output } = await run({
    command: ['npm', 'install', ...options, ...NODE_TOOLS],
    limitMs: INSTALL_LIMIT_MS,
  })
  if (code !== 0) throw new Error(output)
}

/** Runs redocly and reads its report, because redocly exits with 0 despite warnings. Returns its output on failure. */
async function redocly(command: string): Promise<string | undefined> {
  const { output } = await run({
    command: [command, 'lint', DOCUMENT, '--format=json'],
    cwd: root,
    env: { REDOCLY_TELEMETRY: 'off', REDOCLY_SUPPRESS_UPDATE_NOTICE: 'true' },
    limitMs: STEP_LIMIT_MS,
  })
  const totals = /"errors": (\d+),\s+"warnings": (\d+)/.exec(output)
  return totals?.[1] === '0' && totals[2] === '0' ? undefined : output
}

/** Runs a command. Returns its output when it fails, undefined when it succeeds. */
async function succeeds(options: Omit<RunOptions, 'limitMs'>): Promise<string | undefined> {
  const { code, output, isLate } = await run({ ...options, limitMs: STEP_LIMIT_MS })
  if (isLate) return `took longer than ${STEP_LIMIT_MS / 1000} s\n${output}`
  return code === 0 ? undefined : output
}
