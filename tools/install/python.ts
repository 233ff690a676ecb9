import { chmod, mkdtemp } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { run } from '../kit/run.ts'
import { installed } from './apt.ts'
import { insisting } from './installing.ts'

const LIBRARIES = ['pyarrow==26.0.1', 'pandas==3.1.1', 'polars==2.1.0', 'grpcio==1.85.1']
const LIMIT_MS = 5 * 60_000

/** A virtual environment with the data libraries that pipelines may use, and with the official gRPC client. */
export const pythonWithLibraries = () => pythonWith(LIBRARIES)

/** Creates a virtual environment with `packages`, such as `mypy==2.4.1`. Resolves with the path of its interpreter. */
export async function pythonWith(packages: readonly string[], limitMs = LIMIT_MS): Promise<string> {
  const python = Bun.which('python3') ?? (await installed('python3', () => Bun.which('python3')))
  const directory = await mkdtemp(join(tmpdir(), 'sluice-venv-'))
  // Pipelines run as another user, who must be able to read the environment.
  await chmod(directory, 0o755)
  const bin = join(directory, 'bin', 'python')
  const make = () => run({ command: [python, '-m', 'venv', directory], limitMs: LIMIT_MS })
  if ((await make()).code !== 0)
    await installed('python3-venv', async () => (await make()).code === 0 || null)
  await insisting('pip install', async () => {
    const { code, output } = await run({
      command: [bin, '-m', 'pip', 'install', '--quiet', ...packages],
      limitMs,
    })
    if (code !== 0) throw new Error(`pip ended with code ${code}\n${output}`)
  })
  return bin
}
