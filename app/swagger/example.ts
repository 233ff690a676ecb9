// A value that a schema accepts, put together from the examples of its fields.
import { isJsonObject } from './schema.ts'

/** Lists of requests may be empty; those of answers show what is in them. */
export type ExampleOf = 'request' | 'answer'

const ANY_TEXT = 'text'

/** `schema` is of OpenAPI 3.0. Its own example, else one field by field: required ones, and those that show an example. */
export function exampleOf(schema: unknown, of: ExampleOf = 'request'): unknown {
  if (!isJsonObject(schema)) return null
  if (schema.example !== undefined) return schema.example
  if (schema.default !== undefined) return schema.default
  if (Array.isArray(schema.enum)) return schema.enum[0]
  const [first] = [schema.anyOf, schema.oneOf].find(Array.isArray) ?? []
  if (first !== undefined) return exampleOf(first, of)
  switch (schema.type) {
    case 'object':
      return exampleOfObject(schema, of)
    case 'array':
      return of === 'request' && schema.minItems === undefined && !hasExample(schema.items)
        ? []
        : [exampleOf(schema.items, of)]
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

function exampleOfObject({ properties, required }: Record<string, unknown>, of: ExampleOf) {
  if (!isJsonObject(properties)) return {}
  const needed = new Set(Array.isArray(required) ? required : [])
  const shown = Object.entries(properties).filter(([name, field]) => needed.has(name) || hasExample(field))
  // Where nothing is required, everything is shown: an empty body says nothing.
  const fields = shown.length > 0 ? shown : Object.entries(properties)
  return Object.fromEntries(fields.map(([name, field]) => [name, exampleOfField(name, field, of)]))
}

/** Of texts that the schema leaves open: what they are called says what they are. */
const BY_NAME: Record<string, string> = {
  namespace: 'default',
  layer: 'silver',
  pipeline: 'flights',
  name: 'flights',
}

function exampleOfField(name: string, field: unknown, of: ExampleOf) {
  const example = exampleOf(field, of)
  return example === ANY_TEXT ? (BY_NAME[name] ?? example) : example
}

const hasExample = (schema: unknown) => isJsonObject(schema) && schema.example !== undefined
