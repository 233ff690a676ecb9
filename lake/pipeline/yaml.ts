// Reads untrusted YAML in time that depends only on its length. The parser itself compares each key of a mapping with all
// others, so a few thousand keys would block the process for seconds.
import { isScalar, type LineCounter, parseDocument, visit, YAMLParseError } from 'yaml'

/** The largest nesting depth. People write a handful of levels. */
const DEPTH = 50
/**
 * Aliases multiply their values, and the parser searches the whole document for each alias. A chain of some thousand aliases
 * would take cubic time. Configuration files need none.
 */
export const YAML_ALIASES = 10

/**
 * Parses the first document of a text; `errors` is filled when the text is not valid. Never throws and never prints. Values may
 * be read only from a document without errors, with `maxAliasCount: YAML_ALIASES`. Callers must limit the length of the text.
 */
export function readYaml(text: string, lineCounter?: LineCounter) {
  const document = parseDocument(text, {
    lineCounter,
    prettyErrors: false,
    schema: 'core',
    stringKeys: true,
    uniqueKeys: false,
  })
  if (document.errors.length > 0) return document
  const refuse = (node: { range?: readonly number[] | null }, reason: keyof typeof REFUSALS) => {
    const [start = 0, end = start] = node.range ?? []
    const [code, message] = REFUSALS[reason]
    document.errors.push(new YAMLParseError([start, end], code, message))
    return visit.BREAK
  }
  let aliases = 0
  visit(document, {
    Alias: (_, node) => (++aliases > YAML_ALIASES ? refuse(node, 'ALIASES') : undefined),
    Collection: (_, node, path) => (path.length > DEPTH ? refuse(node, 'DEPTH') : undefined),
    Map(_, map, path) {
      if (path.length > DEPTH) return refuse(map, 'DEPTH')
      const keys = new Set<unknown>()
      for (const { key } of map.items) {
        const name = isScalar(key) ? key.value : key
        if (keys.has(name)) return refuse(isScalar(key) ? key : map, 'KEY')
        keys.add(name)
      }
    },
  })
  return document
}

const REFUSALS = {
  ALIASES: ['RESOURCE_EXHAUSTION', `more than ${YAML_ALIASES} aliases`],
  DEPTH: ['RESOURCE_EXHAUSTION', `nested deeper than ${DEPTH} levels`],
  KEY: ['DUPLICATE_KEY', 'Map keys must be unique'],
} as const
