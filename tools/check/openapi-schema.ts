// Reads schemas of an OpenAPI document, 3.0 or 3.1, with references to components.

export type Json = Record<string, unknown>

export const isJson = (value: unknown): value is Json =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

export const entriesOf = (value: unknown): [string, Json][] =>
  isJson(value) ? Object.entries(value).filter((entry): entry is [string, Json] => isJson(entry[1])) : []

export const fieldOf = (value: unknown, name: string): Json | undefined => {
  const field = isJson(value) && Object.hasOwn(value, name) ? value[name] : undefined
  return isJson(field) ? field : undefined
}

export const referenceOf = (value: unknown) =>
  isJson(value) && typeof value.$ref === 'string' ? value.$ref : ''

/** Converts a schema to one form for both versions: null becomes `nullable`, a constant becomes an enum of one value. */
export function schemaOf(document: Json, value: unknown): Json {
  const { const: constant, ...schema } = resolved(document, value)
  if (constant !== undefined) schema.enum = [constant]
  if (Array.isArray(schema.type)) {
    const [type] = schema.type.filter((one) => one !== 'null')
    return { ...schema, type, nullable: schema.type.includes('null') }
  }
  const alternatives = alternativesOf(schema)
  const others = alternatives?.filter((one) => !isJson(one) || one.type !== 'null')
  if (!alternatives || !others || others.length === alternatives.length) return schema
  const { anyOf: _, oneOf: __, ...rest } = schema
  return others.length === 1
    ? { ...schemaOf(document, others[0]), ...rest, nullable: true }
    : { ...rest, anyOf: others, nullable: true }
}

/** Returns the target of `#/components/...`. Any other value is returned itself. */
export function resolved(document: Json, value: unknown): Json {
  const reference = referenceOf(value)
  if (reference === '') return isJson(value) ? value : {}
  const found = reference
    .slice(2)
    .split('/')
    .reduce<Json | undefined>((at, name) => fieldOf(at, name), document)
  if (found === undefined) throw new Error(`unresolved reference ${reference}`)
  return resolved(document, found)
}

export const alternativesOf = (schema: Json): unknown[] | undefined =>
  [schema.anyOf, schema.oneOf].find((list): list is unknown[] => Array.isArray(list))
