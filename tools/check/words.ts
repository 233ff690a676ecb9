/**
 * Rules about sentences: `words.ts [path prefix ...]` prints every comment, document sentence, test title and commit subject
 * that breaks one. The rules are those of CONTRIBUTING.md.
 */
import { readFile } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { referenceFaults } from './documents.ts'
import { FOLDERS } from './folders.ts'
import { numberFaults } from './numbers.ts'

const ROOT = join(import.meta.dirname, '..', '..')
const CODE = `${FOLDERS}/**/*.{ts,tsx,js,mjs,py,proto,sql}`
const DOCUMENTS = '**/*.md'
const GENERATED =
  /^(proto\/gen|proto\/spark|drizzle\/migrations|docs\/statecharts|\.bun|\.git)\/|(^|\/)node_modules\//

const SENTENCE_WORDS_MAX = 25
const TITLE_WORDS_MAX = 14
const SUBJECT_CHARACTERS_MAX = 72
/** Commits before this one have older subjects. */
const SUBJECTS_SINCE = 'b3e7ba4'

const FORBIDDEN_OPENING = /^["'(*_]*(What|Of|Who|Whoever|Whatever|Where|One that)\b(?![^.?!]*\?)/

/** A run of prose: a comment, or a paragraph, list item or table cell of a document. */
interface Passage {
  line: number
  text: string
}

/** Comments of a source file. Lines of one comment that follow each other are one passage; list items stand alone. */
export function commentsOf(path: string, source: string): Passage[] {
  const mark = path.endsWith('.py') ? '#' : path.endsWith('.sql') ? '--' : '//'
  const passages: Passage[] = []
  let current: Passage | null = null
  let isInBlock = false
  const add = (line: number, text: string, isAlone: boolean) => {
    const words = text.trim()
    const isBreak = words === '' || /^([-*|]|\d+\.) |^@/.test(words)
    if (isBreak || isAlone) current = null
    if (words === '') return
    if (current === null) {
      current = { line, text: words.replace(/^([-*]|\d+\.) /, '') }
      passages.push(current)
    } else current.text += ` ${words}`
    if (isAlone) current = null
  }
  for (const [index, raw] of source.split('\n').entries()) {
    const line = index + 1
    const text = raw.trim()
    if (isInBlock || (mark === '//' && text.startsWith('/*'))) {
      const isEnd = text.includes('*/')
      add(
        line,
        text
          .replace(/^\/\*+|\*+\/.*$/g, '')
          .replace(/^\* ?/, '')
          .replace(/\*+\/.*$/, ''),
        false,
      )
      isInBlock = !isEnd
      if (isEnd) current = null
    } else if (text.startsWith(mark)) {
      if (!DIRECTIVE.test(text)) add(line, text.slice(mark.length).replace(/^[/!]/, ''), false)
    } else {
      current = null
      const behind = mark === '//' ? trailingComment(text) : null
      if (behind !== null && !DIRECTIVE.test(behind)) add(line, behind.slice(2), true)
    }
  }
  return passages
}

const DIRECTIVE = /^(\/\/|#|--)\s*(biome-ignore|@ts-|#!|eslint|--> statement|type:|noqa)/

/** The comment behind code, found outside of quotes; null: there is none. */
function trailingComment(line: string): string | null {
  let quote = ''
  for (let at = 0; at < line.length; at++) {
    const character = line[at] ?? ''
    if (character === '\\') at++
    else if (quote !== '') quote = character === quote ? '' : quote
    else if (character === "'" || character === '"' || character === '`') quote = character
    else if (line.startsWith(' // ', at)) return line.slice(at + 1)
  }
  return null
}

/** Paragraphs, list items and table cells of a Markdown document, without code blocks. */
export function paragraphsOf(source: string): Passage[] {
  const passages: Passage[] = []
  let current: Passage | null = null
  let isInCode = false
  for (const [index, raw] of source.split('\n').entries()) {
    const text = raw.trim()
    if (/^(```|~~~)/.test(text)) isInCode = !isInCode
    if (isInCode || /^(```|~~~|#|<|$)/.test(text)) {
      current = null
      continue
    }
    if (text.startsWith('|')) {
      for (const cell of text.split('|'))
        if (cell.trim() !== '') passages.push({ line: index + 1, text: cell.trim() })
      current = null
      continue
    }
    const item = /^([-*>]|\d+\.)\s+(.*)$/.exec(text)
    if (current === null || item !== null) {
      current = { line: index + 1, text: item?.[2] ?? text }
      passages.push(current)
    } else current.text += ` ${text}`
  }
  return passages
}

/** Sentences of a passage. Code and links count as one word each. */
export function sentencesOf(text: string): string[] {
  return text
    .replaceAll(/`[^`]*`/g, 'code')
    .replaceAll(/!?\[([^\]]*)\]\([^)]*\)/g, '$1')
    .replaceAll(/\b(e\.g|i\.e|etc|vs|cf)\./g, '$1')
    .split(/(?<=[.!?][)"'*_]*)\s+(?=[\p{Lu}"'(*_`]|code\b)/u)
}

const wordsOf = (sentence: string) => sentence.split(/\s+/).filter((word) => /[\p{L}\p{N}]/u.test(word))

function faultsOf(path: string, { line, text }: Passage): string[] {
  return sentencesOf(text).flatMap((sentence) => {
    const count = wordsOf(sentence).length
    const start = sentence.slice(0, 70)
    return [
      ...(count > SENTENCE_WORDS_MAX ? [`${path}:${line}: ${count} words in a sentence: ${start}`] : []),
      ...(FORBIDDEN_OPENING.test(sentence)
        ? [`${path}:${line}: sentence begins with a relative pronoun: ${start}`]
        : []),
    ]
  })
}

const TITLE = /\b(?:test|it|describe)(?:\.\w+(?:\([^)]*\))?)*\(\s*(['"`])((?:\\.|(?!\1).)*)\1/g

/** Titles of tests with more words than a report can show. */
export function titleFaults(path: string, source: string): string[] {
  return Array.from(source.matchAll(TITLE)).flatMap(({ index, 2: title = '' }) => {
    const count = wordsOf(title.replaceAll(/\$\{[^}]*\}/g, 'value')).length
    const line = source.slice(0, index).split('\n').length
    const opening = FORBIDDEN_OPENING.test(
      title[0] === undefined ? '' : title[0].toUpperCase() + title.slice(1),
    )
    return [
      ...(count > TITLE_WORDS_MAX
        ? [`${path}:${line}: ${count} words in a title: ${title.slice(0, 70)}`]
        : []),
      ...(opening ? [`${path}:${line}: title begins with a relative pronoun: ${title.slice(0, 70)}`] : []),
    ]
  })
}

async function subjectFaults(): Promise<string[]> {
  const log = Bun.spawnSync(['git', 'log', '--format=%h %s', `${SUBJECTS_SINCE}..HEAD`], {
    cwd: ROOT,
    stderr: 'ignore',
  })
  // A checkout without history has nothing to check.
  if (log.exitCode !== 0) return []
  return log.stdout
    .toString()
    .split('\n')
    .filter((line) => line.slice(line.indexOf(' ') + 1).length > SUBJECT_CHARACTERS_MAX)
    .map((line) => `commit subject over ${SUBJECT_CHARACTERS_MAX} characters: ${line}`)
}

/** Every fault in the files whose path starts with one of `prefixes`; all files without any. */
export async function wordFaults(prefixes: readonly string[]): Promise<string[]> {
  const paths = [CODE, DOCUMENTS]
    .flatMap((pattern) => [...new Bun.Glob(pattern).scanSync({ cwd: ROOT, dot: true })])
    .filter((path) => !GENERATED.test(path))
    .filter((path) => prefixes.length === 0 || prefixes.some((prefix) => path.startsWith(prefix)))
    .sort()
  const found = await Promise.all(
    paths.map(async (path) => {
      const source = await readFile(join(ROOT, path), 'utf8')
      if (path.endsWith('.md'))
        return [
          ...paragraphsOf(source).flatMap((passage) => faultsOf(path, passage)),
          ...(await referenceFaults(path, source)),
        ]
      const titles = /\.(test|spec|interop)\.ts$|suite|test-/.test(basename(path))
        ? titleFaults(path, source)
        : []
      return [...commentsOf(path, source).flatMap((passage) => faultsOf(path, passage)), ...titles]
    }),
  )
  return [...found.flat(), ...(await numberFaults()), ...(await subjectFaults())]
}

if (import.meta.main) {
  const faults = await wordFaults(process.argv.slice(2))
  console.log([...faults, `${faults.length} faults of wording`].join('\n'))
  process.exit(faults.length === 0 ? 0 : 1)
}
