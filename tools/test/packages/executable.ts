/** The archive: unpacked and started on a machine whose PATH has neither Node nor Bun. */
import { mkdir, readdir, symlink } from 'node:fs/promises'
import { join } from 'node:path'
import { eachLine } from '../../../sidecars/supervisor/lines.ts'
import { freePort } from '../../../sidecars/supervisor/ports.ts'
import { installed } from '../../install/apt.ts'
import { endWith } from '../../kit/scratch.ts'
import type { Tally } from '../../kit/tally.ts'
import { buildArchive } from '../../packages/archive.ts'
import type { TestPostgres } from '../../service/test-postgres.ts'
import { journey, untilAnswers } from './journey.ts'

const ARCHIVE_BYTES_MAX = 120e6
const STOP_SECONDS_MAX = 15
/** The whole PATH of the started service: a shell and what its sandboxes need. */
const PROGRAMS = ['sh', 'nice', 'python3', 'bwrap']

/** Builds, unpacks and runs the archive. Returns the unpacked directory. */
export async function judgeExecutable(
  tally: Tally,
  { folder, database }: { folder: string; database: TestPostgres },
): Promise<string> {
  let directory = ''
  await tally.check('the archive is built and small', async () => {
    const built = join(folder, 'built')
    const { name, file, bytes } = await buildArchive(built)
    tally.note(`Archive: ${(bytes / 1e6).toFixed(0)} MB`)
    const place = join(folder, 'unpacked')
    await mkdir(place, { recursive: true })
    const tar = Bun.spawnSync(['tar', '-C', place, '-xzf', file])
    directory = join(place, name)
    return tar.success && bytes < ARCHIVE_BYTES_MAX ? undefined : `${bytes} bytes ${tar.stderr}`
  })
  await tally.check('the archive contains no source in TypeScript', async () => {
    const files = await readdir(directory, { recursive: true })
    const sources = files.filter((name) => name.endsWith('.ts'))
    return files.length > 50 && sources.length === 0 ? undefined : sources.join('\n')
  })
  await tally.check('without Node, the executable runs pipelines and stops in time', async () => {
    const service = await start(directory, { folder, database })
    try {
      await untilAnswers(`${service.url}/health/ready`, service.hasEnded)
      const problem = await journey(service.url)
      if (problem !== undefined) return `${problem}\n${service.log()}`
    } catch (error) {
      return `${error}\n${service.log()}`
    } finally {
      await service.stop()
    }
    const { code, seconds } = await service.stop()
    return code === 0 && seconds < STOP_SECONDS_MAX
      ? undefined
      : `code ${code} after ${seconds} s\n${service.log()}`
  })
  await tally.check('the executable names its version and refuses unknown commands', async () => {
    const refused = Bun.spawnSync([join(directory, 'sluice'), 'nothing'], { env: {} })
    return refused.exitCode === 64 && refused.stderr.includes('usage: sluice')
      ? undefined
      : String(refused.stderr)
  })
  return directory
}

async function start(directory: string, { folder, database }: { folder: string; database: TestPostgres }) {
  const bin = join(folder, 'bin')
  await mkdir(bin, { recursive: true })
  for (const program of PROGRAMS) {
    const name = program === 'bwrap' ? 'bubblewrap' : program
    const found = realProgram(program) ?? (await installed(name, () => realProgram(program)))
    await symlink(found, join(bin, program))
  }
  const port = await freePort()
  const child = Bun.spawn([join(directory, 'sluice'), 'start'], {
    cwd: folder,
    env: { PATH: bin, DATABASE_URL: database.url, DATA_DIR: join(folder, 'data'), PORT: String(port) },
    stdin: 'ignore',
    stdout: 'pipe',
    stderr: 'pipe',
  })
  const lines: string[] = []
  const drained = Promise.all(
    [child.stdout, child.stderr].map((stream) => eachLine(stream, (line) => lines.push(line))),
  )
  let seconds = 0
  const stop = async () => {
    const startedMs = performance.now()
    if (child.exitCode === null) {
      child.kill('SIGTERM')
      await child.exited
      seconds = (performance.now() - startedMs) / 1_000
    }
    await drained
    return { code: child.exitCode, seconds }
  }
  endWith(stop)
  return {
    url: `http://127.0.0.1:${port}`,
    log: () => lines.join('\n'),
    hasEnded: () => child.exitCode !== null,
    stop,
  }
}

/** The program of the system. A shim of a version manager would need its own programs on the PATH. */
const realProgram = (name: string) => Bun.which(name, { PATH: '/usr/bin:/bin' })
