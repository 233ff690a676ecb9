// Names that a route does not know. Such a name would have no effect, although its sender meant one, so the request is refused
// and the error lists the known names. Two rules keep clients working. An update may send back the fields of its resource's
// own answer with their present values. Query parameters that begin with `_` are ignored.
import { isDeepStrictEqual } from 'node:util'
import { AppError, invalid } from '../core/errors.ts'

/** The part of a JSON schema that names fields. */
interface Schema {
  properties?: Readonly<Record<string, unknown>>
  patternProperties?: unknown
  additionalProperties?: unknown
  items?: unknown
  anyOf?: readonly unknown[]
  oneOf?: readonly unknown[]
  allOf?: readonly unknown[]
}

/** The fields of one level of a body. */
export interface BodyFields {
  /** Fields that clients may send, with the fields of the next level; null: the next level is not checked. */
  readonly written: ReadonlyMap<string, BodyFields | null>
  /** Fields of the resource's own answer at this level. An update may send them back. */
  readonly read: ReadonlySet<string>
}

/** A field that only the resource's own answer has. */
interface SentBack {
  readonly path: readonly string[]
  readonly value: unknown
}

/** Letters by which an unknown field may differ from the intended field. */
const DISTANCE_MAX = 2
/** Unknown names compared in one body. Each comparison costs microseconds, and a body may have 100,000 names. */
/** No name of the API is longer. */
const NAME_CHARACTERS_MAX = 64
/** Characters of a present value in an error. */
const VALUE_CHARACTERS_MAX = 100

/** The fields of a request without a body. */
export const NO_FIELDS: BodyFields = { written: new Map(), read: new Set() }

/**
 * The fields of bodies with this JSON schema. `responses` are the schemas of the resource's own answers. Null: the body has no
 * fields, or clients choose the names.
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

/** Throws 400 for the first unknown field. Returns the fields that only the resource's own answer has. */
export function checkFields(body: object, fields: BodyFields): SentBack[] {
  const sentBack: SentBack[] = []
  const open: { value: unknown; fields: BodyFields; path: readonly string[] }[] = [
    { value: body, fields, path: [] },
  ]
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    const { value, fields, path } = next
    if (typeof value !== 'object' || value === null) continue
    for (const [name, inner] of Object.entries(value)) {
      const below = [...path, name]
      const nested = Array.isArray(value) ? fields : fields.written.get(name)
      if (nested) open.push({ value: inner, fields: nested, path: below })
      else if (nested === undefined && fields.read.has(name)) sentBack.push({ path: below, value: inner })
      else if (nested === undefined) throw unknownName('field', name, fields.written.keys(), path)
    }
  }
  return sentBack
}

/** Throws 400 for a field that was sent back with another value than `present`, the resource's own answer, has. */
export function refuseChanged(sentBack: readonly SentBack[], present: unknown): void {
  for (const { path, value } of sentBack) {
    const own = path.reduce(valueIn, present)
    if (isDeepStrictEqual(value, own)) continue
    const shown = own === undefined ? 'no value' : JSON.stringify(own).slice(0, VALUE_CHARACTERS_MAX)
    throw invalid(
      path.join('.'),
      `this request cannot change the field: leave it out, or send its present value, ${shown}`,
    )
  }
}

const valueIn = (holder: unknown, name: string): unknown =>
  typeof holder === 'object' && holder !== null && Object.hasOwn(holder, name)
    ? Reflect.get(holder, name)
    : undefined

/** Throws 400 for a query parameter that is not known. Parameters that begin with `_` are ignored. */
export function checkParameters(query: string, known: ReadonlySet<string>): void {
  if (query === '') return
  for (const name of new URLSearchParams(query).keys())
    if (!known.has(name) && !name.startsWith('_')) throw unknownName('query parameter', name, known)
}

/** The error for a name that its request does not have: 400 with the known names, and the one that was probably meant. */
export function unknownName(
  kind: 'field' | 'query parameter' | 'form field',
  name: string,
  known: Iterable<string>,
  path: readonly string[] = [],
): AppError {
  const names = [...known]
  const at = (own: string) => `\`${[...path, own].join('.')}\``
  const nearest = nearestOf(name, names)
  const meant = nearest === null ? '.' : `, did you mean ${at(nearest)}?`
  const shown = at(name.length > NAME_CHARACTERS_MAX ? `${name.slice(0, NAME_CHARACTERS_MAX)}...` : name)
  const list = names.length === 0 ? 'none' : names.map((own) => `\`${own}\``).join(', ')
  return new AppError(400, 'INVALID_ARGUMENT', `unknown ${kind} ${shown}${meant} Known: ${list}`)
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
