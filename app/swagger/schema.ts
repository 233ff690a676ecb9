// Writes schemas for OpenAPI 3.1: JSON Schema, in which a schema with a title becomes a component.

export type Json = Record<string, unknown>

export const isJsonObject = (value: unknown): value is Json =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

export interface SchemaWriter {
  /** Converts a schema of TypeBox; a schema with a title becomes a reference. */
  write(schema: unknown): Json
  /** The titled schemas that were written (`#/components/schemas`), sorted by name. */
  components(): Json
  /** The schema behind a reference; any other schema is returned unchanged. */
  resolve(schema: unknown): unknown
}

const COMPONENTS = '#/components/schemas/'

export function makeSchemaWriter(): SchemaWriter {
  const components = new Map<string, Json>()

  function write(schema: unknown): Json {
    if (!isJsonObject(schema)) return {}
    const shown = isJsonObject(schema.documented) ? schema.documented : schema
    const { title } = shown
    return typeof title === 'string' ? reference(title, shown) : inline(shown)
  }

  /** A title becomes one class in a generated client, so two schemas with one title must be equal. */
  function reference(title: string, schema: Json): Json {
    const { title: _, ...rest } = schema
    const written = inline(rest)
    const existing = components.get(title)
    if (existing === undefined) components.set(title, written)
    else if (JSON.stringify(existing) !== JSON.stringify(written))
      throw new Error(`two schemas have the title ${title}: give one of them another title`)
    return { $ref: `${COMPONENTS}${title}` }
  }

  function inline(schema: Json): Json {
    if (Array.isArray(schema.anyOf)) return unionOf(schema, schema.anyOf)
    const {
      patternProperties,
      properties,
      required,
      default: fallback,
      items,
      additionalProperties,
      ...rest
    } = schema
    const written = own(rest)
    const needed = Array.isArray(required)
      ? required.filter((name) => !isJsonObject(properties) || !hasDefault(properties[name]))
      : []
    if (needed.length > 0) written.required = needed
    if (hasDefault(schema)) written.default = fallback
    if (items !== undefined) written.items = write(items)
    if (isJsonObject(properties)) written.properties = mapValues(properties, write)
    const others = isJsonObject(patternProperties)
      ? Object.values(patternProperties)[0]
      : additionalProperties
    if (others !== undefined) written.additionalProperties = isJsonObject(others) ? write(others) : others
    return written
  }

  /** Literals become an enum. A nullable value becomes one schema of two types; a nullable component becomes an alternative. */
  function unionOf({ anyOf: _, discriminator, ...rest }: Json, anyOf: unknown[]): Json {
    const members = anyOf.filter(isJsonObject)
    if (isJsonObject(discriminator))
      return { ...own(rest), ...discriminated(members, String(discriminator.propertyName)) }
    const values = members.filter((member) => member.type !== 'null')
    const isNullable = values.length < members.length
    const literals = values.flatMap((value) => (value.const === undefined ? [] : [value.const]))
    const written =
      literals.length === values.length
        ? [{ type: typeof literals[0], enum: literals } as Json]
        : values.map(write)
    const [only, ...others] = written
    if (only && others.length === 0) {
      if (!isNullable) return { ...own(rest), ...only }
      if (isOneType(only)) return { ...only, ...own(rest), type: [only.type, 'null'] }
    }
    return { ...own(rest), anyOf: isNullable ? [...written, { type: 'null' }] : written }
  }

  /** Alternatives that a constant field distinguishes. */
  function discriminated(members: readonly Json[], propertyName: string): Json {
    const constantOf = ({ properties }: Json) => {
      const field = isJsonObject(properties) ? properties[propertyName] : undefined
      return isJsonObject(field) ? String(field.const) : ''
    }
    const written = members.map((member) => [constantOf(member), write(member)] as const)
    const mapping = Object.fromEntries(written.map(([value, { $ref }]) => [value, $ref]))
    return { oneOf: written.map(([, schema]) => schema), discriminator: { propertyName, mapping } }
  }

  return {
    write,
    components: () => Object.fromEntries([...components].toSorted(([a], [b]) => (a < b ? -1 : 1))),
    resolve: (schema) =>
      isJsonObject(schema) && typeof schema.$ref === 'string'
        ? components.get(schema.$ref.slice(COMPONENTS.length))
        : schema,
  }
}

/**
 * A field with a default is not required, because the check of a body fills it in first. A file has no real default: the
 * framework puts the word `File` there.
 */
const hasDefault = (schema: unknown) =>
  isJsonObject(schema) && schema.default !== undefined && schema.format !== 'binary'

/** Drops the symbols that TypeBox adds to its schemas. */
const own = (schema: Json): Json => Object.fromEntries(Object.entries(schema))

const isOneType = ({ type, enum: values, const: constant }: Json) =>
  typeof type === 'string' && type !== 'object' && values === undefined && constant === undefined

const mapValues = (object: Json, change: (value: unknown) => Json): Json =>
  Object.fromEntries(Object.entries(object).map(([key, value]) => [key, change(value)]))
