import { homedir } from 'node:os'
import { join } from 'node:path'
import { run } from '../kit/run.ts'
import { installed } from './apt.ts'
import { insisting } from './installing.ts'

const LIMIT_MS = 10 * 60_000

/** An artifact of Maven Central, such as `io.trino:trino-server:476:tar.gz`. Without a packaging it is a jar. */
interface Artifact {
  group: string
  name: string
  version: string
  packaging?: string
  classifier?: string
}

/**
 * Downloads an artifact into Maven's own repository, which stays on the machine. A wrong checksum is a failure. Resolves with
 * the path of the file.
 */
export async function fromMaven(artifact: Artifact): Promise<string> {
  const { group, name, version, packaging = 'jar', classifier } = artifact
  const coordinates = [group, name, version, packaging, ...(classifier === undefined ? [] : [classifier])]
  const maven = Bun.which('mvn') ?? (await installed('maven', () => Bun.which('mvn')))
  const options = ['--strict-checksums', `-Dartifact=${coordinates.join(':')}`, '-Dtransitive=false']
  await insisting(`download of ${name}`, async () => {
    const { code, output } = await run({
      command: [maven, '--batch-mode', '--quiet', 'dependency:get', ...options],
      limitMs: LIMIT_MS,
    })
    if (code !== 0) throw new Error(`Maven ended with code ${code}\n${output}`)
  })
  const folder = join(homedir(), '.m2', 'repository', ...group.split('.'), name, version)
  const file = classifier === undefined ? `${name}-${version}` : `${name}-${version}-${classifier}`
  return join(folder, `${file}.${packaging}`)
}
