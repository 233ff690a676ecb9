// Builds a value that a schema accepts from the examples of its fields.
import { isJsonObject } from './schema.ts'

/** Returns the schema behind a reference. */
type Resolve = (schema: unknown) => unknown

/** Example lists in requests may be empty; lists in responses show an item. */
type ExampleOf = 'request' | 'answer'

const ANY_TEXT = 'text'

/** `schemaOrReference` is a schema of the document. Returns its own example, or else its required fields and fields with an example. */
export function exampleOf(schemaOrReference: unknown, resolve: Resolve, of: ExampleOf = 'request'): unknown {
  const schema = resolve(schemaOrReference)
  if (!isJsonObject(schema)) return null
  if (Array.isArray(schema.examples)) return schema.examples[0]
  if (schema.default !== undefined) return schema.default
  if (schema.const !== undefined) return schema.const
  if (Array.isArray(schema.enum)) return schema.enum[0]
  const [first] = [schema.anyOf, schema.oneOf].find(Array.isArray) ?? []
  if (first !== undefined) return exampleOf(first, resolve, of)
  switch (Array.isArray(schema.type) ? schema.type[0] : schema.type) {
    case 'object':
      return exampleOfObject(schema, resolve, of)
    case 'array':
      return of === 'request' && schema.minItems === undefined && !hasExample(resolve(schema.items))
        ? []
        : [exampleOf(schema.items, resolve, of)]
    case 'string':
      return schema.format === 'date-time' ? '2026-03-01T06:45:00.000Z' : ANY_TEXT
    case 'integer':
    case 'number':
      return schema.minimum ?? (of === 'answer' ? 1 : 0)
    case 'boolean':
      return true
    default:
      return null
  }
}

function exampleOfObject({ properties, required }: Record<string, unknown>, resolve: Resolve, of: ExampleOf) {
  if (!isJsonObject(properties)) return {}
  const needed = new Set(Array.isArray(required) ? required : [])
  const shown = Object.entries(properties).filter(
    ([name, field]) => needed.has(name) || hasExample(resolve(field)),
  )
  // If no field is required, all fields are shown, because an empty body explains nothing.
  const fields = shown.length > 0 ? shown : Object.entries(properties)
  return Object.fromEntries(
    fields.map(([name, field]) => [name, exampleOfField(name, exampleOf(field, resolve, of))]),
  )
}

/** Examples for texts that have no example in the schema, by the name of their field. */
const BY_NAME: Record<string, string> = {
  namespace: 'default',
  layer: 'silver',
  pipeline: 'flights',
  name: 'flights',
}

const exampleOfField = (name: string, example: unknown) =>
  example === ANY_TEXT ? (BY_NAME[name] ?? example) : example

const hasExample = (schema: unknown) => isJsonObject(schema) && Array.isArray(schema.examples)
