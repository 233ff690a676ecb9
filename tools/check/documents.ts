/** Rules about facts in documents: the files, headings and names that a document refers to exist. */
import { existsSync, readdirSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { dirname, join, normalize } from 'node:path'

const ROOT = join(import.meta.dirname, '..', '..')
const FOLDERS = readdirSync(ROOT, { withFileTypes: true })
  .filter((entry) => entry.isDirectory() && !['node_modules', '.git', '.bun'].includes(entry.name))
  .map(({ name }) => name)

const CODE_BLOCK = /^(```|~~~)[\s\S]*?^\1/gm
const CODE = /`[^`\n]+`/g
const PATH = /`([\w.-]+\/[\w./*{},-]*)`/g
const LINK = /\]\(([^()\s]+)\)/g
const NAME_IN_FILE = /`([A-Za-z_]\w*)`\s+\(`([\w./-]+\.\w+)`/g

/** Every reference of the document at `path` that leads nowhere. */
export async function referenceFaults(path: string, source: string): Promise<string[]> {
  const text = source.replaceAll(CODE_BLOCK, '')
  const missing = Array.from(text.matchAll(PATH), ([, name = '']) => name)
    .filter((name) => FOLDERS.includes(name.split('/')[0] ?? '') && !isInTree(name))
    .map((name) => `${path}: there is no file ${name}`)
  const links = await Promise.all(
    Array.from(text.replaceAll(CODE, '').matchAll(LINK), ([, target = '']) =>
      linkFault(path, target, source),
    ),
  )
  const pairs = await Promise.all(
    Array.from(text.matchAll(NAME_IN_FILE), async ([, name = '', file = '']) => {
      if (!existsSync(join(ROOT, file))) return []
      const code = await readFile(join(ROOT, file), 'utf8')
      return new RegExp(`\\b${name}\\b`).test(code) ? [] : [`${path}: ${file} does not contain ${name}`]
    }),
  )
  return [...missing, ...links.flat(), ...pairs.flat()]
}

/** A path may omit its ending, as `e2e/auth` does, and list names in braces. */
function isInTree(name: string): boolean {
  const braces = /\{([^{}]*)\}/.exec(name)
  if (braces !== null)
    return (braces[1] ?? '').split(',').every((part) => isInTree(name.replace(braces[0], part)))
  const finds = (pattern: string) =>
    new Bun.Glob(pattern).scanSync({ cwd: ROOT, onlyFiles: false, dot: true }).next().done === false
  return finds(name) || (/\w$/.test(name) && finds(`${name}.*`)) || existsSync(join(ROOT, name))
}

async function linkFault(path: string, target: string, source: string): Promise<string[]> {
  if (/^[a-z]+:/.test(target)) return []
  const [file = '', anchor] = target.split('#')
  const place = file === '' ? path : normalize(join(dirname(path), file))
  if (!existsSync(join(ROOT, place))) return [`${path}: link to ${target}: there is no file ${place}`]
  if (anchor === undefined || !place.endsWith('.md')) return []
  const text = file === '' ? source : await readFile(join(ROOT, place), 'utf8')
  return headingAnchors(text).includes(anchor) ? [] : [`${path}: ${place} has no heading #${anchor}`]
}

/** The anchors that GitHub gives to the headings of a document. A repeated heading gets a number. */
export function headingAnchors(source: string): string[] {
  const counts = new Map<string, number>()
  return Array.from(source.replaceAll(CODE_BLOCK, '').matchAll(/^#{1,6} +(.+)$/gm), ([, heading = '']) => {
    const slug = heading
      .replaceAll(/\[([^\]]*)\]\([^)]*\)/g, '$1')
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N}_ -]/gu, '')
      .trim()
      .replaceAll(' ', '-')
    const count = counts.get(slug) ?? 0
    counts.set(slug, count + 1)
    return count === 0 ? slug : `${slug}-${count}`
  })
}
