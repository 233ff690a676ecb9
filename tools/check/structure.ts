/** Rules about the text of files: the place of SQL, the permitted members of libraries, and the length of functions. */
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { codeOf, type SourceFile } from './architecture.ts'

const ROOT = join(import.meta.dirname, '..', '..')
const FOLDERS =
  'app,bench,console,drizzle,e2e,examples,ground,lake,machines,proto,sidecars,simulation,tools,workers,.setup'
const GENERATED = /^(proto\/gen|drizzle\/migrations|console\/dist)\/|(^|\/)node_modules\//
const FOR_TESTS =
  /\.(test|spec|interop|child)\.ts$|(^|\/)(test-[\w-]+|testing|suite)\.ts$|^(e2e|bench|examples|tools|simulation)\//

/** Files that may contain SQL. `drizzle/` contains the tables, and the conditions that several stores share. */
const STORE = /^drizzle\/|(^|\/)store(\.ts$|\/)/
const SQL =
  /^\s*import (?!type\b)[^;]*?from ["'](drizzle-orm[^"']*|[./]+\/drizzle\/schema\/[^"']+)["']|\b(sql|tx)(\.unsafe\(|`)/m

const UNDERSCORE = /\._[a-zA-Z]\w*|\[["']_\w+["']\]/
/** Members of queries and clients of postgres.js that its documentation does not name. */
const POSTGRES_INTERNALS = /\b(query|statement)\.(handler|cancelled|active)\b|\bsocket\.write = /

/** Names of the console's cache and of its addresses, which only `console/api/` uses. */
const CONSOLE_DATA = /\b(queryKey|queryFn|mutationFn|invalidateQueries|encodeURIComponent)\b/

/**
 * The number of files that may contain functions over biome's length limit. Each function has its reason after `biome-ignore`.
 */
const LONG_FUNCTIONS_LIMIT = 10
const LONG_FUNCTION = /biome-ignore lint\/complexity\/noExcessiveLinesPerFunction: \S/

/** Returns every violation as `path: fault; what to do instead`. */
export function structureProblems(files: readonly SourceFile[]): string[] {
  const production = files.filter(
    ({ path, source }) => !FOR_TESTS.test(path) && !/from 'bun:test'/.test(source),
  )
  const found = production.flatMap(({ path, source }) => {
    // Code without comments and types.
    const code = /\.tsx?$/.test(path) ? codeOf({ path, source }) : source
    const hasSql = !STORE.test(path) && /^(app|workers)\//.test(path) && SQL.test(code)
    return [
      ...(hasSql ? [`${path}: contains SQL; move the statement to the store of its slice`] : []),
      ...[UNDERSCORE, POSTGRES_INTERNALS].flatMap((pattern) => {
        const [member] = pattern.exec(code) ?? []
        return member === undefined
          ? []
          : [`${path}: uses ${member}; use what the documentation of the library names`]
      }),
      ...(path.startsWith('console/') ? consoleProblems(path, code) : []),
    ]
  })
  const long = production.filter(({ source }) => LONG_FUNCTION.test(source))
  if (long.length > LONG_FUNCTIONS_LIMIT)
    found.push(`${long.length} files have functions over the limit; split all but ${LONG_FUNCTIONS_LIMIT}`)
  return found
}

/** Components know no cache, and each route loads its data with its code. */
function consoleProblems(path: string, code: string): string[] {
  const [name] = path.startsWith('console/api/') ? [] : (CONSOLE_DATA.exec(code) ?? [])
  const routes = code.split(/\bcreateRoute\(/).slice(1)
  return [
    ...(name === undefined ? [] : [`${path}: contains ${name}; call a function of console/api/`]),
    ...['validateSearch', 'loader']
      .filter((option) => routes.some((text) => !new RegExp(`\\b${option}\\b[:(]`).test(text)))
      .map((option) => `${path}: a route has no ${option}; make the route with page()`),
  ]
}

/** Reads all hand-written TypeScript and JavaScript. */
export async function sourceFiles(): Promise<SourceFile[]> {
  const paths = [...new Bun.Glob(`{${FOLDERS}}/**/*.{ts,tsx,js,mjs}`).scanSync({ cwd: ROOT, dot: true })]
  return Promise.all(
    paths
      .filter((path) => !GENERATED.test(path))
      .map(async (path) => ({ path, source: await readFile(join(ROOT, path), 'utf8') })),
  )
}

/** Returns a text such as `12,345 lines of hand-written code, 6,789 of them for tests`. */
export function sizeOf(files: readonly SourceFile[]): string {
  const linesOf = (some: readonly SourceFile[]) =>
    some.reduce((sum, { source }) => sum + source.split('\n').length - 1, 0).toLocaleString('en')
  const forTests = files.filter(({ path }) => FOR_TESTS.test(path))
  return `${linesOf(files)} lines of hand-written code, ${linesOf(forTests)} of them for tests`
}

if (import.meta.main) {
  const files = await sourceFiles()
  const problems = structureProblems(files)
  console.log([...problems, sizeOf(files)].join('\n'))
  process.exit(problems.length === 0 ? 0 : 1)
}
