/**
 * The table of error and log texts: `messages.ts` writes docs/messages.md again. The texts come from the source; cause and
 * remedy are written by hand in the document and stay there. A new text gets a row without both, which fails the check.
 */
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type Node, parse } from 'acorn'

const ROOT = join(import.meta.dirname, '..', '..')
const DOCUMENT = join(ROOT, 'docs', 'messages.md')
const SOURCES = '{app,drizzle,lake,machines,sidecars,workers}/**/*.{ts,py}'
const NOT_SERVED = /\.(test|interop|d|child)\.ts$|(^|\/)(test-[^/]*|testing|simulation)(\/|\.ts$)/
const LOG_LEVELS = ['info', 'warn', 'error']

interface Source {
  path: string
  text: string
}

/** A text in the source. Values are written as `<name>`. */
interface Message {
  text: string
  path: string
  kind: string
}

interface Explained {
  cause: string
  remedy: string
}

type AnyNode = Node & Record<string, unknown>
/** A function that returns an error, such as `notFound`. */
interface ErrorFactory {
  parameters: readonly string[]
  created: AnyNode
}

const transpiler = new Bun.Transpiler({ loader: 'ts', minifyWhitespace: false })
const parsed = ({ text }: Source) =>
  parse(transpiler.transformSync(text), { ecmaVersion: 'latest', sourceType: 'module' }) as unknown as AnyNode

const isNode = (value: unknown): value is AnyNode =>
  typeof value === 'object' && value !== null && typeof (value as AnyNode).type === 'string'

/** The node and all nodes below it, parents first. */
function nodesIn(node: AnyNode, found: AnyNode[] = []): AnyNode[] {
  found.push(node)
  for (const key in node) {
    const value = node[key]
    if (isNode(value)) nodesIn(value, found)
    else if (Array.isArray(value)) for (const child of value) if (isNode(child)) nodesIn(child, found)
  }
  return found
}

const nameOf = (node: unknown): string => {
  if (!isNode(node)) return ''
  if (node.type === 'Identifier' || node.type === 'PrivateIdentifier') return String(node.name)
  if (node.type === 'MemberExpression') return nameOf(node.property) || nameOf(node.object)
  if (node.type === 'CallExpression') return nameOf(node.callee)
  if (node.type === 'LogicalExpression' || node.type === 'BinaryExpression') return nameOf(node.left)
  if (node.type === 'AwaitExpression' || node.type === 'UnaryExpression') return nameOf(node.argument)
  return ''
}

/** The texts that an expression can have. Empty: the expression contains no literal text. */
function textsOf(node: unknown, values: ReadonlyMap<string, string[]> = new Map()): string[] {
  if (!isNode(node)) return []
  switch (node.type) {
    case 'Literal':
      return typeof node.value === 'string' ? [node.value] : []
    case 'TemplateLiteral': {
      const quasis = node.quasis as { value: { cooked: string } }[]
      const expressions = node.expressions as AnyNode[]
      return expressions.reduce<string[]>(
        (texts, expression, index) => {
          const known = values.get(nameOf(expression)) ?? textsOf(expression, values)
          const next = quasis[index + 1]?.value.cooked ?? ''
          const inserted = known.length > 0 ? known : [`<${nameOf(expression) || 'value'}>`]
          return texts.flatMap((text) => inserted.map((part) => text + part + next))
        },
        [quasis[0]?.value.cooked ?? ''],
      )
    }
    case 'ConditionalExpression':
      return [...textsOf(node.consequent, values), ...textsOf(node.alternate, values)]
    case 'BinaryExpression': {
      if (node.operator !== '+') return []
      const [left, right] = [node.left, node.right].map((side) => {
        const texts = textsOf(side, values)
        return texts.length > 0 ? texts : [`<${nameOf(side) || 'value'}>`]
      })
      return (left ?? []).flatMap((start) => (right ?? []).map((end) => start + end))
    }
    case 'LogicalExpression':
      return [...textsOf(node.left, values), ...textsOf(node.right, values)]
    case 'Identifier':
      return values.get(String(node.name)) ?? []
    default:
      return []
  }
}

/** One line, without the backtick that would end a code span. */
const plain = (text: string) => text.replaceAll(/\s+/g, ' ').replaceAll('`', "'").trim()
const hasWords = (text: string) => /[a-z]{2}.*[ :].*[a-z]{2}/i.test(text.replace(/<[^>]*>/g, ''))

/** Names of classes that extend Error, directly or through each other. */
function errorClasses(trees: readonly AnyNode[]): Set<string> {
  const parents = new Map<string, string>()
  for (const tree of trees)
    for (const node of nodesIn(tree))
      if (node.type === 'ClassDeclaration') parents.set(nameOf(node.id), nameOf(node.superClass))
  const isError = (name: string): boolean =>
    /Error$/.test(name) || (parents.has(name) && isError(parents.get(name) ?? ''))
  return new Set(
    [...parents.keys(), 'Error', 'TypeError', 'RangeError', 'SyntaxError', 'ConnectError'].filter(isError),
  )
}

/** Functions whose result is a new error, by name. */
function errorFactories(trees: readonly AnyNode[], classes: ReadonlySet<string>): Map<string, ErrorFactory> {
  const found = new Map<string, ErrorFactory>()
  const add = (name: string, parameters: unknown, created: unknown) => {
    if (!isNode(created) || name === '') return
    const isError =
      (created.type === 'NewExpression' && classes.has(nameOf(created.callee))) ||
      (created.type === 'CallExpression' && found.has(nameOf(created.callee)))
    if (isError) found.set(name, { parameters: (parameters as AnyNode[]).map(parameterName), created })
  }
  // The second pass finds functions that call a function of the first.
  for (const _ of [1, 2])
    for (const tree of trees)
      for (const node of nodesIn(tree)) {
        const { init } = node
        if (node.type === 'VariableDeclarator' && isNode(init) && init.type === 'ArrowFunctionExpression')
          add(nameOf(node.id), init.params, init.body)
        if (node.type === 'FunctionDeclaration') {
          const last = ((node.body as AnyNode).body as AnyNode[]).at(-1)
          if (last?.type === 'ReturnStatement') add(nameOf(node.id), node.params, last.argument)
        }
      }
  return found
}

const parameterName = (node: AnyNode) => nameOf(node.type === 'AssignmentPattern' ? node.left : node)

/** Every error and log text of the sources, once for each file. */
export function messagesOf(sources: readonly Source[]): Message[] {
  const trees = sources.map((source) => ({ source, tree: parsed(source) }))
  const classes = errorClasses(trees.map(({ tree }) => tree))
  const factories = errorFactories(
    trees.map(({ tree }) => tree),
    classes,
  )
  const created = (node: AnyNode, values: ReadonlyMap<string, string[]>): string[] => {
    const args = node.arguments as AnyNode[]
    const factory = node.type === 'CallExpression' ? factories.get(nameOf(node.callee)) : undefined
    if (factory === undefined) return args.flatMap((argument) => textsOf(argument, values))
    const given = factory.parameters.map((name, index): [string, string[]] => {
      const texts = textsOf(args[index], values)
      const name_ = nameOf(args[index])
      return [name, texts.length > 0 ? texts : [`<${name_ || name}>`]]
    })
    return created(factory.created, new Map(given))
  }
  const found = new Map<string, Message>()
  for (const { source, tree } of trees) {
    const add = (kind: string, texts: readonly string[]) => {
      for (const raw of texts) {
        const text = plain(raw)
        if (hasWords(text)) found.set(`${source.path} ${text}`, { text, path: source.path, kind })
      }
    }
    for (const node of nodesIn(tree)) {
      if (node.type === 'NewExpression' && classes.has(nameOf(node.callee)))
        add(nameOf(node.callee), created(node, new Map()))
      if (node.type !== 'CallExpression') continue
      const callee = node.callee as AnyNode
      const name = nameOf(callee)
      if (factories.has(name)) add(name, created(node, new Map()))
      const isLog =
        callee.type === 'MemberExpression' && LOG_LEVELS.includes(name) && /log$/i.test(nameOf(callee.object))
      if (isLog) add(`log ${name}`, textsOf((node.arguments as AnyNode[])[0]))
    }
  }
  return [...found.values()]
}

async function servedSources(): Promise<Source[]> {
  const paths = [...new Bun.Glob(SOURCES).scanSync({ cwd: ROOT })]
    .filter((path) => !NOT_SERVED.test(path))
    .sort()
  return await Promise.all(
    paths.map(async (path) => ({ path, text: await readFile(join(ROOT, path), 'utf8') })),
  )
}

const ROW = /^\| `(?<text>.+?)` \| (?<cause>.*?) \| (?<remedy>.*?) \| .*? \|$/

/** Cause and remedy of each text in the document. */
export function explainedIn(document: string): Map<string, Explained> {
  const rows = document.split('\n').flatMap((line) => {
    const row = ROW.exec(line.replaceAll('\\|', '\0'))?.groups
    if (row === undefined) return []
    const [text = '', cause = '', remedy = ''] = [row.text, row.cause, row.remedy].map((cell) =>
      (cell ?? '').replaceAll('\0', '|').trim(),
    )
    return [[text, { cause, remedy }] as const]
  })
  return new Map(rows)
}

/** Whether a plain source contains the fixed parts of a text. For texts that the source assembles outside of an error or a log line. */
const containsText = (source: Source, text: string) =>
  text.split(/<[^<>]*>/).every((part) => source.text.includes(part.trim()))

/** The document: one table, sorted by text. */
export function documentOf(sources: readonly Source[], before: ReadonlyMap<string, Explained>): string {
  const messages = messagesOf(sources.filter(({ path }) => path.endsWith('.ts')))
  const extracted = new Set(messages.map(({ text }) => text))
  const plainSources = sources.map(({ path, text }) => ({ path, text: plain(text) }))
  for (const text of before.keys()) {
    if (extracted.has(text)) continue
    const source = plainSources.find((candidate) => containsText(candidate, text))
    if (source !== undefined) messages.push({ text, path: source.path, kind: 'reason' })
  }
  const rows = [...Map.groupBy(messages, ({ text }) => text)]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([text, places]) => {
      const { cause = '', remedy = '' } = before.get(text) ?? {}
      const sources = [
        ...new Set(
          places.map(({ path, kind }) => (kind.startsWith('log ') ? `${kind}: \`${path}\`` : `\`${path}\``)),
        ),
      ].join(', ')
      return `| ${[`\`${text}\``, cause, remedy, sources].map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`
    })
  return `${HEADING}\n| Text | Cause | Remedy | Source |\n|---|---|---|---|\n${rows.join('\n')}\n`
}

const HEADING = `# Error and log texts

Search this page for a line of the log or for a \`message\` of an answer. \`<name>\` stands for a value. Texts of DuckDB,
Postgres, Python and the object store are passed on as they are and are not listed.

Log lines start with \`warn\` or \`error\`, or with neither; errors of the API are \`{ "error": { "code", "type", "message" } }\`.
A text with the cause "a fault in Sluice" should be reported together with the lines around it.
`

/** Problems of docs/messages.md; undefined: none. */
export async function messageProblems(): Promise<string | undefined> {
  const committed = await readFile(DOCUMENT, 'utf8')
  const before = explainedIn(committed)
  const expected = documentOf(await servedSources(), before)
  if (expected !== committed) return 'node .setup/bun.mjs tools/check/messages.ts changes docs/messages.md'
  const unexplained = [...before].flatMap(([text, { cause, remedy }]) =>
    cause === '' || remedy === '' ? [text] : [],
  )
  return unexplained.length === 0
    ? undefined
    : `no cause or remedy in docs/messages.md:\n${unexplained.join('\n')}`
}

if (import.meta.main) {
  const before = explainedIn(await readFile(DOCUMENT, 'utf8').catch(() => ''))
  await writeFile(DOCUMENT, documentOf(await servedSources(), before))
  const problems = await messageProblems()
  if (problems !== undefined) {
    console.error(problems)
    process.exit(1)
  }
}
