/** The hand-written folders, and the files in them. Every check takes its files from here. */
import { execFileSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'

export type SourceFile = { path: string; source: string }

const ROOT = join(import.meta.dirname, '..', '..')

/**
 * The folders, each with the lines of production code that it may have. A change that passes one raises it, with its reason in the
 * commit.
 */
const LINES_MAX: Readonly<Record<string, number>> = {
  '.setup': 400,
  app: 42_400,
  bench: 5_500,
  console: 16_100,
  drizzle: 1_900,
  e2e: 2_600,
  examples: 700,
  ground: 600,
  lake: 16_100,
  machines: 900,
  proto: 100,
  sidecars: 21_100,
  simulation: 4_300,
  tools: 7_500,
  workers: 4_600,
}
/** Folders without hand-written code. */
const OTHER_FOLDERS = new Set(['docs', '.ci'])
const GENERATED = /^(proto\/gen|drizzle\/migrations|console\/dist[^/]*)\/|(^|\/)node_modules\//

/** The names of the folders, as a glob. */
export const FOLDERS = `{${Object.keys(LINES_MAX).join(',')}}`

const isGenerated = (path: string): boolean => GENERATED.test(path)

/** Whether a file only serves tests, by its name. */
export const isTest = (path: string): boolean =>
  /\.(test|spec|interop|child)\.tsx?$|(^|\/)(test-[\w-]+|testing|suite)\.tsx?$/.test(path)

/** Whether a file is no part of the service: it serves tests, measurements, examples or the work on the code. */
export const isBesideProduct = ({ path, source }: SourceFile): boolean =>
  isTest(path) ||
  /^(\.setup|e2e|bench|examples|tools|simulation)\//.test(path) ||
  /from 'bun:test'/.test(source)

/** Reads all hand-written TypeScript and JavaScript. */
export async function sourceFiles(): Promise<SourceFile[]> {
  const paths = [...new Bun.Glob(`${FOLDERS}/**/*.{ts,tsx,js,mjs}`).scanSync({ cwd: ROOT, dot: true })]
  return Promise.all(
    paths
      .filter((path) => !isGenerated(path))
      .map(async (path) => ({ path, source: await readFile(join(ROOT, path), 'utf8') })),
  )
}

/** Folders with files of the repository that the list above lacks, and listed ones that are gone. */
export function unlistedFolders(): string[] {
  const paths = execFileSync('git', ['ls-files'], { cwd: ROOT, encoding: 'utf8', maxBuffer: 1e8 }).split('\n')
  const present = [
    ...new Set(paths.flatMap((path) => (path.includes('/') ? [path.split('/')[0] ?? ''] : []))),
  ]
  return [
    ...present
      .filter((name) => !(name in LINES_MAX) && !OTHER_FOLDERS.has(name))
      .map((name) => `${name}/ is in no list: add it to tools/check/folders.ts`),
    ...Object.keys(LINES_MAX)
      .filter((name) => !existsSync(join(ROOT, name)))
      .map((name) => `${name}/ is gone: remove it from tools/check/folders.ts`),
  ]
}

const linesOf = ({ source }: SourceFile) => source.split('\n').length - 1

/** Production lines per folder. */
export function linesByFolder(files: readonly SourceFile[]): Map<string, number> {
  const lines = new Map(Object.keys(LINES_MAX).map((name) => [name, 0]))
  for (const file of files) {
    const folder = file.path.split('/')[0] ?? ''
    if (!isTest(file.path) && !/from 'bun:test'/.test(file.source))
      lines.set(folder, (lines.get(folder) ?? 0) + linesOf(file))
  }
  return lines
}

/** Folders with more production lines than their budget. */
export const overBudget = (lines: ReadonlyMap<string, number>): string[] =>
  [...lines].flatMap(([folder, count]) => {
    const most = LINES_MAX[folder] ?? 0
    return count > most
      ? [
          `${folder}/ has ${count} production lines, and its budget is ${most}: delete some, or raise the budget`,
        ]
      : []
  })

/** Longest production file without a reason in its header. */
const FILE_LINES_MAX = 400
const REASON = /^(\/\*\*|\/\/)[\s\S]{0,1500}?\bOver 400 lines because\b/

/** Production files that are longer, and that do not begin with `Over 400 lines because ...`. */
export const tooLong = (files: readonly SourceFile[]): string[] =>
  files
    .filter((file) => !isBesideProduct(file) && linesOf(file) > FILE_LINES_MAX && !REASON.test(file.source))
    .map(
      (file) =>
        `${file.path} has ${linesOf(file)} lines: split it, or begin its header with 'Over ${FILE_LINES_MAX} lines because ...'`,
    )
