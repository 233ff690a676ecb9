/**
 * Keeps docs/messages.md true: each text of its tables stands in the source. Text, cause and remedy are written by hand, for
 * texts that need an operator only.
 */
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'

const ROOT = join(import.meta.dirname, '..', '..')
const SOURCES = '{app,drizzle,lake,machines,sidecars,workers}/**/*.{ts,py}'
const NOT_SERVED = /\.(test|interop|d|child)\.ts$|(^|\/)(test-[^/]*|testing|simulation)(\/|\.ts$)/

const ROW = /^\| `(?<text>.+?)` \| (?<cause>.+?) \| (?<remedy>.+?) \|$/

/** One line, without the backtick that would end a code span. */
const plain = (text: string) => text.replaceAll(/\s+/g, ' ').replaceAll('`', "'")

/** The problems of a document: texts that no source contains, and rows without cause or remedy. `<name>` stands for a value. */
export function messageFaults(document: string, sources: readonly string[]): string[] {
  const plainSources = sources.map(plain)
  return document.split('\n').flatMap((line) => {
    if (!line.startsWith('| `')) return []
    const text = ROW.exec(line.replaceAll('\\|', '\0'))?.groups?.text?.replaceAll('\0', '|')
    if (text === undefined) return [`not a row with text, cause and remedy: ${line}`]
    const parts = text.split(/<[^<>]*>/).map((part) => part.trim())
    const isKnown = plainSources.some((source) => parts.every((part) => source.includes(part)))
    return isKnown ? [] : [`no source contains: ${text}`]
  })
}

/** Problems of docs/messages.md; undefined: none. */
export async function messageProblems(): Promise<string | undefined> {
  const paths = [...new Bun.Glob(SOURCES).scanSync({ cwd: ROOT })].filter((path) => !NOT_SERVED.test(path))
  const sources = await Promise.all(paths.map((path) => readFile(join(ROOT, path), 'utf8')))
  const faults = messageFaults(await readFile(join(ROOT, 'docs', 'messages.md'), 'utf8'), sources)
  return faults.length === 0 ? undefined : `docs/messages.md: correct or remove\n${faults.join('\n')}`
}
