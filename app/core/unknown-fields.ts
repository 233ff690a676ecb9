// Unknown fields are ignored, so a misspelt field would have no effect. A field that nearly matches a field of the route is
// refused instead; the error names the field that was probably meant.
import { AppError } from './errors.ts'

/** The part of a JSON schema that names fields. */
interface Schema {
  properties?: Readonly<Record<string, unknown>>
  patternProperties?: unknown
  additionalProperties?: unknown
  items?: unknown
  anyOf?: readonly unknown[]
  oneOf?: readonly unknown[]
  allOf?: readonly unknown[]
  /** The stricter schema of `documentedAs`: it names fields where the checked schema accepts anything. */
  documented?: unknown
}

/** The fields of one level of a body. */
export interface BodyFields {
  /** Fields that clients may send, with the fields of the next level; null: the next level is not checked. */
  readonly written: ReadonlyMap<string, BodyFields | null>
  /** Fields that the service returns at this level. Clients may send them back. */
  readonly read: ReadonlySet<string>
}

/** Letters by which an unknown field may differ from the intended field. */
const DISTANCE_MAX = 2
/** Unknown names compared in one body. Each comparison costs microseconds, and a body may have 100,000 names. */
const NAMES_COMPARED_MAX = 200
/** No field of the API is longer. */
const NAME_CHARACTERS_MAX = 64

/**
 * The fields of bodies with this JSON schema. `responses` are the schemas of responses at the same address. Null: the body has
 * no fields, or clients choose the names.
 */
export function bodyFieldsOf(body: unknown, responses: readonly unknown[] = []): BodyFields | null {
  return levelOf([body], responses)
}

function levelOf(bodies: readonly unknown[], responses: readonly unknown[]): BodyFields | null {
  const objects = bodies.flatMap(objectsIn)
  if (objects.length === 0 || objects.some(hasFreeNames)) return null
  const responseObjects = responses.flatMap(objectsIn)
  const written = namesOf(objects).map(
    (name) => [name, levelOf(below(objects, name), below(responseObjects, name))] as const,
  )
  return { written: new Map(written), read: new Set(namesOf(responseObjects)) }
}

/** The object schemas inside a schema, including lists and alternatives. */
function objectsIn(schema: unknown): Schema[] {
  if (!isSchema(schema)) return []
  if (schema.documented !== undefined) return objectsIn(schema.documented)
  const inner = [...(schema.anyOf ?? []), ...(schema.oneOf ?? []), ...(schema.allOf ?? []), schema.items]
  const own = schema.properties !== undefined || schema.patternProperties !== undefined ? [schema] : []
  return [...own, ...inner.flatMap(objectsIn)]
}

const hasFreeNames = ({ patternProperties, additionalProperties }: Schema) =>
  patternProperties !== undefined || additionalProperties === true || isSchema(additionalProperties)

const namesOf = (objects: readonly Schema[]) => [
  ...new Set(objects.flatMap(({ properties }) => Object.keys(properties ?? {}))),
]

const below = (objects: readonly Schema[], name: string) =>
  objects.flatMap(({ properties }) => properties?.[name] ?? [])

const isSchema = (value: unknown): value is Schema => typeof value === 'object' && value !== null

/** Throws 400 when the name of an unknown field nearly matches a field of the route. */
export function refuseMisspelt(body: object, fields: BodyFields): void {
  const open: { value: unknown; fields: BodyFields; path: string }[] = [{ value: body, fields, path: '' }]
  const compared = new Set<string>()
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    const { value, fields, path } = next
    if (Array.isArray(value)) for (const item of value) open.push({ value: item, fields, path })
    else if (typeof value === 'object' && value !== null)
      for (const [name, inner] of Object.entries(value)) {
        const nestedFields = fields.written.get(name)
        if (nestedFields) open.push({ value: inner, fields: nestedFields, path: `${path}${name}.` })
        if (nestedFields !== undefined || fields.read.has(name)) continue
        const key = path + name
        if (compared.has(key) || compared.size === NAMES_COMPARED_MAX) continue
        compared.add(key)
        const suggestion = nearestOf(name, fields.written.keys())
        if (suggestion !== null)
          throw new AppError(
            400,
            'INVALID_ARGUMENT',
            `unknown field \`${key}\`, did you mean \`${path}${suggestion}\`?`,
          )
      }
  }
}

/** The known name most similar to an unknown name; null: none is similar. A short name must match in most letters. */
export function nearestOf(name: string, candidates: Iterable<string>): string | null {
  let nearest: string | null = null
  let nearestDistance = DISTANCE_MAX + 1
  if (name.length > NAME_CHARACTERS_MAX) return null
  for (const candidate of candidates) {
    const distanceMax = Math.min(
      nearestDistance - 1,
      Math.ceil(Math.min(name.length, candidate.length) / 2) - 1,
    )
    if (Math.abs(name.length - candidate.length) > distanceMax) continue
    const distance = distanceOf(name, candidate)
    if (distance > distanceMax) continue
    nearest = candidate
    nearestDistance = distance
  }
  return nearest
}

/** Damerau-Levenshtein distance (optimal string alignment): letters added, left out, replaced, or swapped with a neighbour. */
function distanceOf(a: string, b: string): number {
  let beforeLast: number[] = []
  let last = Array.from({ length: b.length + 1 }, (_, column) => column)
  for (let row = 1; row <= a.length; row++) {
    const current = [row]
    for (let column = 1; column <= b.length; column++) {
      const isSame = a[row - 1] === b[column - 1]
      const isSwapped = row > 1 && column > 1 && a[row - 1] === b[column - 2] && a[row - 2] === b[column - 1]
      current.push(
        Math.min(
          at(last, column) + 1,
          at(current, column - 1) + 1,
          at(last, column - 1) + (isSame ? 0 : 1),
          isSwapped ? at(beforeLast, column - 2) + 1 : Number.POSITIVE_INFINITY,
        ),
      )
    }
    beforeLast = last
    last = current
  }
  return at(last, b.length)
}

const at = (row: readonly number[], column: number) => row[column] ?? Number.POSITIVE_INFINITY
