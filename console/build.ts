/**
 * Bundles the console into `console/dist/` with Bun's bundler. The names of assets have hashes, and each is also compressed.
 * `manifest.json` has the names that the page loads. `.setup/setup.mjs` runs it when a source of the console has changed.
 */
import { readdir, rename, rm, writeFile } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { brotliCompressSync, constants } from 'node:zlib'

const root = import.meta.dirname
const out = join(root, 'dist')

/** Loaded by path instead of by import: a worker runs them. */
const WORKERS = ['pages/lineage/layout.worker.ts']

interface Manifest {
  script: string
  /** The address of the icon, which contains the icon. */
  icon: string
  style: string
  /** Names by the file name of the worker without extensions. */
  workers: Record<string, string>
}

async function build(): Promise<void> {
  const building = join(root, `dist.${process.pid}`)
  await rm(building, { recursive: true, force: true })
  const options = {
    root,
    outdir: building,
    target: 'browser',
    format: 'esm',
    minify: true,
    define: { 'process.env.NODE_ENV': '"production"' },
    naming: { entry: '[name]-[hash].[ext]', chunk: '[name]-[hash].[ext]', asset: '[name]-[hash].[ext]' },
  } as const
  const main = await Bun.build({ ...options, entrypoints: [join(root, 'main.tsx')], splitting: true })
  const style = await Bun.build({ ...options, entrypoints: [join(root, 'style.css')] })
  const workers = await Bun.build({ ...options, entrypoints: WORKERS.map((path) => join(root, path)) })
  const named = (outputs: Bun.BuildArtifact[], kind: string, extension: string) =>
    outputs
      .filter((output) => output.kind === kind && output.path.endsWith(extension))
      .map(({ path }) => basename(path))
  const manifest: Manifest = {
    script: named(main.outputs, 'entry-point', '.js')[0] ?? '',
    icon: `data:image/svg+xml;base64,${(await Bun.file(join(root, 'icon.svg')).bytes()).toBase64()}`,
    style: named(style.outputs, 'asset', '.css')[0] ?? '',
    workers: Object.fromEntries(
      named(workers.outputs, 'entry-point', '.js').map((name) => [name.split('.')[0] ?? name, name]),
    ),
  }
  for (const name of await readdir(building)) await compress(join(building, name))
  await writeFile(join(building, 'manifest.json'), JSON.stringify(manifest))
  await rm(out, { recursive: true, force: true })
  await rename(building, out)
}

async function compress(path: string): Promise<void> {
  const bytes = await Bun.file(path).bytes()
  const params = { [constants.BROTLI_PARAM_QUALITY]: 9, [constants.BROTLI_PARAM_SIZE_HINT]: bytes.length }
  await writeFile(`${path}.br`, brotliCompressSync(bytes, { params }))
}

await build()
