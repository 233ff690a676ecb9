/** Rules about exports: a file does not only re-export, and another file imports each name that a file exports. */
import { posix } from 'node:path'
import type { SourceFile } from './folders.ts'

/** Files whose exports are read by a program that the imports do not show. */
const READ_BY_PROGRAMS = /^(e2e\/.*(config|setup|teardown)|drizzle\/(drizzle\.config|schema\/\w[\w-]*))\.ts$/

const EXPORTED =
  /^export (?:declare )?(?:async )?(?:abstract )?(?:const enum|const|let|function\*?|class|interface|type|enum) (\w+)/gm
const LISTED = /^export (?:type )?(?:\{([^}]*)\}|\*(?: as \w+)?)(?: from '([^']+)')?/gm
const IMPORTED = /(?:^|\n)\s*(?:import|export) (?:type )?(?:\w+,? ?)?\{([^}]*)\} from '([^']+)'/g
const WHOLE =
  /(?:import|export) (?:type )?\* (?:as \w+ )?from '([^']+)'|import\('([^']+)'\)|import (\w+)(?:, \{[^}]*\})? from '([^']+)'/g

const COMMENTS_AND_IMPORTS = /\/\*[\s\S]*?\*\/|^\s*\/\/.*$|^import [\s\S]*?from '[^']+'$/gm

/** Names of a list such as `a, type B, c as d`: the original ones. */
const namesIn = (list: string) =>
  list
    .split(',')
    .map(
      (part) =>
        part
          .trim()
          .replace(/^type /, '')
          .split(' as ')[0]
          ?.trim() ?? '',
    )
    .filter((name) => name !== '')

/** Exports that no other file imports, and files that only re-export, each as `path: fault; what to do instead`. */
export function exportProblems(files: readonly SourceFile[]): string[] {
  const used = new Map<string, Set<string>>()
  const wholly = new Set<string>()
  const resolve = (from: string, specifier: string) => posix.join(posix.dirname(from), specifier)
  for (const { path, source } of files) {
    for (const [, list = '', specifier = ''] of source.matchAll(IMPORTED)) {
      const target = resolve(path, specifier)
      const names = used.get(target) ?? new Set()
      used.set(target, names)
      for (const name of namesIn(list)) names.add(name)
    }
    for (const [, star, dynamic, , byDefault] of source.matchAll(WHOLE))
      for (const specifier of [star, dynamic, byDefault]) if (specifier) wholly.add(resolve(path, specifier))
  }
  return files.flatMap(({ path, source }) => {
    if (READ_BY_PROGRAMS.test(path)) return []
    const listed = [...source.matchAll(LISTED)]
    const rest = source.replace(COMMENTS_AND_IMPORTS, '').replace(LISTED, '')
    const isFacade = listed.length > 0 && rest.trim() === ''
    if (isFacade) return [`${path}: only re-exports; import from the files themselves`]
    if (wholly.has(path)) return []
    const names = [
      ...[...source.matchAll(EXPORTED)].map(([, name = '']) => name),
      ...listed.flatMap(([, list = '']) => namesIn(list)),
    ]
    return names
      .filter((name) => !used.get(path)?.has(name))
      .map((name) => `${path}: nothing imports ${name}; delete it, or the word export`)
  })
}
