// JSON Schema as TypeBox writes it, in the dialect of OpenAPI 3.0.

export type Json = Record<string, unknown>

export const isJsonObject = (value: unknown): value is Json =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

export function toOpenApiSchema(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(toOpenApiSchema)
  if (!isJsonObject(schema)) return schema
  if (Array.isArray(schema.anyOf)) return unionOf(schema, schema.anyOf)
  const { const: constant, examples, patternProperties, properties, default: fallback, ...rest } = schema
  const converted: Json = {}
  for (const [key, value] of Object.entries(rest)) {
    if (value !== undefined) converted[key] = NESTED.has(key) ? toOpenApiSchema(value) : value
  }
  if (constant !== undefined) converted.enum = [constant]
  if (Array.isArray(examples)) converted.example = examples[0]
  // A file has no default: TypeBox writes the word `File` there.
  if (fallback !== undefined && schema.format !== 'binary') converted.default = fallback
  if (isJsonObject(properties)) converted.properties = mapValues(properties, toOpenApiSchema)
  if (isJsonObject(patternProperties))
    converted.additionalProperties = toOpenApiSchema(Object.values(patternProperties)[0])
  return converted
}

const NESTED = new Set(['items', 'allOf', 'oneOf', 'not', 'additionalProperties'])

/** 3.0 knows neither `const` nor the type `null`: literals are an enum, and null is `nullable`. */
function unionOf({ anyOf: _, examples, ...rest }: Json, anyOf: unknown[]): Json {
  const members = anyOf.filter(isJsonObject)
  const values = members.filter((member) => member.type !== 'null')
  const common: Json = {
    ...rest,
    ...(Array.isArray(examples) ? { example: examples[0] } : {}),
    ...(values.length < members.length ? { nullable: true } : {}),
  }
  if (values.length > 0 && values.every((value) => value.const !== undefined))
    return { ...common, type: typeof values[0]?.const, enum: values.map((value) => value.const) }
  const [only, ...others] = values.map(toOpenApiSchema)
  return isJsonObject(only) && others.length === 0
    ? { ...only, ...common }
    : { ...common, anyOf: [only, ...others] }
}

const mapValues = (object: Json, change: (value: unknown) => unknown): Json =>
  Object.fromEntries(Object.entries(object).map(([key, value]) => [key, change(value)]))
