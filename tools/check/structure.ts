/** Rules about the text of files: the place of SQL, the permitted members of libraries, and the length of functions. */
import { codeOf } from './architecture.ts'
import { exportProblems } from './exports.ts'
import {
  isBesideProduct,
  linesByFolder,
  overBudget,
  type SourceFile,
  sourceFiles,
  tooLong,
  unlistedFolders,
} from './folders.ts'

/** Files that may contain SQL. `drizzle/` contains the tables, and the conditions that several stores share. */
const STORE = /^drizzle\/|(^|\/)store(\.ts$|\/)/
const SQL =
  /^\s*import (?!type\b)[^;]*?from ["'](drizzle-orm[^"']*|[./]+\/drizzle\/schema\/[^"']+)["']|(?<![.\w])(sql|tx)(\.unsafe\(|`)/m

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
  const production = files.filter((file) => !isBesideProduct(file))
  const found = production.flatMap(({ path, source }) => {
    // Code without comments and types.
    const code = /\.tsx?$/.test(path) ? codeOf({ path, source }) : source
    const hasSql = !STORE.test(path) && SQL.test(code)
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

/** All faults of structure: folders, lengths, and the rules above. */
export function treeProblems(files: readonly SourceFile[]): string[] {
  return [
    ...unlistedFolders(),
    ...overBudget(linesByFolder(files)),
    ...tooLong(files),
    ...structureProblems(files),
    ...exportProblems(files),
  ]
}

/** Returns a text such as `115,000 production lines: app 42,000, lake 21,000`. */
export function sizeOf(files: readonly SourceFile[]): string {
  const lines = [...linesByFolder(files)].toSorted(([, a], [, b]) => b - a)
  const sum = lines.reduce((total, [, count]) => total + count, 0)
  const parts = lines.map(([folder, count]) => `${folder} ${count.toLocaleString('en')}`)
  return `${sum.toLocaleString('en')} lines of code without tests: ${parts.join(', ')}`
}

if (import.meta.main) {
  const files = await sourceFiles()
  const problems = treeProblems(files)
  console.log([...problems, sizeOf(files)].join('\n'))
  process.exit(problems.length === 0 ? 0 : 1)
}
