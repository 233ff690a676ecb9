// Builds the API process for Node, which cannot execute TypeScript. The build is a single file, made at each start. The file is
// in the data directory and uses the packages of this checkout.
import { mkdir, rm, symlink } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { Refusal } from './refusal.ts'

/** Builds `entry` into `folder` and resolves with the path of the built file. Throws Refusal. */
export async function buildForNode({ root, entry, folder }: { root: string; entry: string; folder: string }) {
  const built = await Bun.build({
    entrypoints: [join(root, entry)],
    target: 'node',
    packages: 'external',
    sourcemap: 'inline',
    naming: 'api.mjs',
    outdir: folder,
    plugins: [sameFolders],
    throw: false,
  })
  if (!built.success) throw new Refusal(`the API cannot be built for Node: ${built.logs.join('; ')}`)
  await mkdir(folder, { recursive: true })
  const packages = join(folder, 'node_modules')
  await rm(packages, { force: true })
  await symlink(join(root, 'node_modules'), packages)
  return join(folder, 'api.mjs')
}

/** Replaces `import.meta.dirname` with the folder of each source, because pages and migrations stay in place. */
const sameFolders: Bun.BunPlugin = {
  name: 'same folders',
  setup(build) {
    build.onLoad({ filter: /\.ts$/ }, async ({ path }) => {
      const source = await Bun.file(path).text()
      return {
        contents: source.replaceAll('import.meta.dirname', JSON.stringify(dirname(path))),
        loader: 'ts',
      }
    })
  },
}
