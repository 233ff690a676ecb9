/**
 * `bun tools/packages/archive.ts <folder>`: packs the executable, the files beside it and the systemd units into
 * `sluice-<version>-<platform>.tar.gz`, for servers without Node and containers.
 */
import { cp, stat } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { version } from '../../package.json'
import { buildExecutable } from './executable.ts'

type Archive = { name: string; file: string; bytes: number }

/** Builds the archive in `folder`, beside the directory that it contains. Throws when the build fails. */
export async function buildArchive(folder: string): Promise<Archive> {
  const name = `sluice-${version}-${process.platform}-${process.arch}`
  await buildExecutable(join(folder, name))
  await cp(join(import.meta.dirname, 'systemd'), join(folder, name, 'systemd'), { recursive: true })
  const file = join(folder, `${name}.tar.gz`)
  const tar = Bun.spawnSync(['tar', '--owner=0', '--group=0', '-C', folder, '-czf', file, name])
  if (!tar.success) throw new Error(`tar failed: ${tar.stderr}`)
  return { name, file, bytes: (await stat(file)).size }
}

if (import.meta.main) {
  const { file, bytes } = await buildArchive(resolve(process.argv[2] ?? '.'))
  console.log(`${file} ${(bytes / 1e6).toFixed(1)} MB`)
}
