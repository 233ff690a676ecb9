/**
 * `bun tools/packages/executable.ts <folder>`: builds the executable with `bun build --compile`, and copies the files that must
 * stay beside it.
 */
import { cp, mkdir, rm } from 'node:fs/promises'
import { dirname, join, relative, resolve } from 'node:path'
import { checkoutIn } from '../../app/entry/checkout.ts'
import { version } from '../../package.json'

const root = join(import.meta.dirname, '..', '..')
const MAIN = 'tools/packages/main.ts'
/** Every file that the service starts by path: its servers, its threads, and the processes of its engines. */
const ENTRIES = [
  'app/entry/main.ts',
  'sidecars/{runner,query,supervisor}/main.ts',
  'sidecars/**/*.main.ts',
  'sidecars/**/*.preload.ts',
  'workers/*.worker.ts',
]
const DUCKDB = `node_modules/@duckdb/node-bindings-${process.platform}-${process.arch}`
/**
 * Files that the executable reads from its own folder. Native libraries must be files, and pages and migrations are served and
 * applied from their folders.
 */
const BESIDE = [
  'LICENSE',
  'console/dist/*',
  'node_modules/elkjs/{package.json,LICENSE.md}',
  'app/swagger/page/*',
  'drizzle/migrations/**/*',
  'sidecars/**/*.py',
  `${DUCKDB}/{package.json,LICENSE,duckdb.node,libduckdb.so}`,
  'node_modules/minijinja-js/{package.json,LICENSE}',
  'node_modules/minijinja-js/dist/bundler/*.wasm',
  'node_modules/swagger-ui-dist/{package.json,LICENSE,swagger-ui.css,swagger-ui-bundle.js,favicon-32x32.png}',
]

/** Builds the executable and its files in `directory`, which is emptied first. Throws when a file is missing or the build fails. */
export async function buildExecutable(directory: string) {
  await rm(directory, { recursive: true, force: true })
  await mkdir(directory, { recursive: true })
  await compile(join(directory, 'sluice'))
  for (const pattern of BESIDE) {
    const paths = await matching(pattern)
    if (paths.length === 0) throw new Error(`no file beside the executable matches ${pattern}`)
    for (const path of paths) await cp(join(root, path), join(directory, path), { dereference: true })
  }
}

async function compile(outfile: string) {
  const entries = (await Promise.all(ENTRIES.map(matching))).flat()
  const checkout = checkoutIn(root)
  await Bun.build({
    entrypoints: [MAIN, ...entries].map((path) => join(root, path)),
    root,
    target: 'bun',
    // The entries share their modules.
    splitting: true,
    minify: { whitespace: true, syntax: true },
    define: {
      BUILD: JSON.stringify({
        SLUICE_VERSION: version,
        GIT_COMMIT: process.env.GIT_COMMIT ?? checkout?.commit ?? 'unknown',
        BUILD_TIME: process.env.BUILD_TIME ?? checkout?.time ?? 'unknown',
      }),
    },
    compile: { outfile, autoloadDotenv: false, autoloadBunfig: false },
    plugins: [placesOnDisk, duckdbBeside],
  })
}

/** Paths relative to the root, sorted; tests and their parts excluded. */
async function matching(pattern: string): Promise<string[]> {
  const found = await Array.fromAsync(new Bun.Glob(pattern).scan({ cwd: root, followSymlinks: true }))
  return found.filter((path) => !/\.(test|spec|child)\.[jt]s$|\/test-[^/]+$/.test(path)).sort()
}

/**
 * A compiled module does not know its folder. References to files become references to the folder of the executable. Threads
 * are files inside the executable, so references of workers stay inside.
 */
const placesOnDisk: Bun.BunPlugin = {
  name: 'places on disk',
  setup(build) {
    build.onLoad({ filter: /\.ts$/ }, async ({ path }) => {
      const source = await Bun.file(path).text()
      const place = relative(root, path)
      if (place.startsWith('node_modules') || place === MAIN || !source.includes('import.meta.'))
        return { contents: source, loader: 'ts' }
      const inside = place.startsWith('workers/')
      const home = inside ? `'/$bunfs/root'` : `process.execPath.replace(/\\/[^/]*$/, '')`
      return {
        contents: source
          .replace(
            /(?<!['`])import\.meta\.dirname/g,
            () => `(${home} + ${JSON.stringify(`/${dirname(place)}`)})`,
          )
          .replace(
            /(?<!['`])import\.meta\.url/g,
            () => `('file://' + ${home} + ${JSON.stringify(`/${place}`)})`,
          ),
        loader: 'ts',
      }
    })
  },
}

/** The native module finds its library in its own folder, so both stay files. */
const duckdbBeside: Bun.BunPlugin = {
  name: 'duckdb beside',
  setup(build) {
    build.onLoad({ filter: /@duckdb\/node-bindings\/duckdb\.js$/ }, () => ({
      contents: `module.exports = require(process.execPath.replace(/\\/[^/]*$/, '') + '/${DUCKDB}/duckdb.node')`,
      loader: 'js',
    }))
  },
}

if (import.meta.main) await buildExecutable(resolve(process.argv[2] ?? 'sluice'))
