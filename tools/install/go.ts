/** Programs that tests build with Go, once for each version. */
import { existsSync } from 'node:fs'
import { mkdir, mkdtemp, readdir, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { insisting } from './installing.ts'

/** The folder of programs that tests build or need beside their data. */
export const toolsFolder = join(import.meta.dirname, '..', '..', '.bun', 'tools')
const BUILD_LIMIT_MS = 10 * 60_000

/**
 * Returns the path of a program, which `go install <package>@<version>` builds at the first use. Throws when the build fails.
 */
export async function goProgram(name: string, { source, version }: { source: string; version: string }) {
  const binary = join(toolsFolder, `${name}-${version}`)
  if (!existsSync(binary)) await insisting(`building ${name}`, () => build(binary, `${source}@${version}`))
  return binary
}

/** Builds in a separate folder and then moves the binary, so that an incomplete binary never runs. */
async function build(binary: string, module: string): Promise<void> {
  if (!Bun.which('go')) throw new Error(`${module}: the build needs Go, which is not installed`)
  await mkdir(toolsFolder, { recursive: true })
  const target = await mkdtemp(join(toolsFolder, 'build-'))
  try {
    process.stderr.write(`Building ${module}, once\n`)
    const go = Bun.spawn(['go', 'install', module], {
      env: { ...process.env, GOBIN: target },
      timeout: BUILD_LIMIT_MS,
      stdout: 'ignore',
      stderr: 'pipe',
    })
    const [errorOutput, code] = await Promise.all([new Response(go.stderr).text(), go.exited])
    if (code !== 0) throw new Error(`go install ${module} failed:\n${errorOutput.slice(-2000)}`)
    const [built] = await readdir(target)
    if (built === undefined) throw new Error(`go install ${module} built no program`)
    await rename(join(target, built), binary)
  } finally {
    await rm(target, { recursive: true, force: true })
  }
}
