/**
 * YAML that strangers have written, read in time that follows from its length alone: the parser itself compares each key
 * of a mapping with all others, and a few thousand of them would stop the process for seconds.
 */
import { isScalar, type LineCounter, parseDocument, visit, YAMLParseError } from 'yaml'

/** Levels of what people write are a handful. */
const DEPTH = 50
/**
 * Aliases multiply what they stand for, and each is looked for in the whole document: a chain of some thousand would take
 * its cube. What is read here needs none.
 */
export const YAML_ALIASES = 10

/**
 * The first document of a text, with `errors` where it is not valid; never throws and never prints. Values may be taken from
 * a document without errors only, with `maxAliasCount: YAML_ALIASES`. Callers bound the length of the text.
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
  const refuse = (node: { range?: readonly number[] | null }, why: keyof typeof REFUSALS) => {
    const [start = 0, end = start] = node.range ?? []
    const [code, message] = REFUSALS[why]
    document.errors.push(new YAMLParseError([start, end], code, message))
    return visit.BREAK
  }
  let aliases = 0
  visit(document, {
    Alias: (_, node) => (++aliases > YAML_ALIASES ? refuse(node, 'ALIASES') : undefined),
    Collection: (_, node, path) => (path.length > DEPTH ? refuse(node, 'DEPTH') : undefined),
    Map(_, map, path) {
      if (path.length > DEPTH) return refuse(map, 'DEPTH')
      const seen = new Set<unknown>()
      for (const { key } of map.items) {
        const name = isScalar(key) ? key.value : key
        if (seen.has(name)) return refuse(isScalar(key) ? key : map, 'KEY')
        seen.add(name)
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
