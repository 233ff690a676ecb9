/**
 * Finds the changes between two OpenAPI documents that break clients. The documents are those that this program writes or has
 * written: 3.0 or 3.1, with references to components only. A response may gain fields and enum values, and a request may gain
 * optional fields. Names of components do not appear on the wire.
 */

import {
  alternativesOf,
  entriesOf,
  fieldOf,
  isJson,
  type Json,
  referenceOf,
  resolved,
  schemaOf,
} from './openapi-schema.ts'

const METHODS = ['get', 'put', 'post', 'delete', 'options', 'head', 'patch', 'trace']

/**
 * Returns the breaking changes, each as a sentence with operation and field. Empty means that clients of `before` can use
 * `after`.
 */
export function breakingChanges(before: Json, after: Json, prefix = '/api/v1'): string[] {
  const found: string[] = []
  const context = { before, after, found }
  for (const [path, operations] of entriesOf(before.paths)) {
    if (!path.startsWith(prefix)) continue
    const now = fieldOf(after.paths, path)
    if (now === undefined) {
      found.push(`${path}: the path is gone`)
      continue
    }
    for (const method of METHODS) {
      const operation = fieldOf(operations, method)
      if (operation === undefined) continue
      const at = `${method.toUpperCase()} ${path}`
      const present = fieldOf(now, method)
      if (present === undefined) found.push(`${at}: the operation is gone`)
      else compareOperation(context, at, operation, present)
    }
  }
  return found
}

interface Context {
  before: Json
  after: Json
  found: string[]
}

function compareOperation(context: Context, at: string, before: Json, after: Json) {
  if (before.operationId !== after.operationId)
    context.found.push(
      `${at}: operationId '${before.operationId}' has become '${after.operationId}', which renames the method of generated clients`,
    )
  compareCredentials(context, at, before, after)
  compareParameters(context, at, before, after)
  compareBodies(context, at, before, after)
  const responses = fieldOf(after, 'responses')
  for (const [status, response] of entriesOf(before.responses)) {
    const here = `${at}: response ${status}`
    const present = fieldOf(responses, status)
    if (present === undefined) {
      context.found.push(`${here} is gone`)
      continue
    }
    const was = resolved(context.before, response)
    const is = resolved(context.after, present)
    for (const [type, media] of entriesOf(was.content)) {
      const now = fieldOf(is.content, type)
      if (now === undefined) context.found.push(`${here}: ${type} is gone`)
      else compareSchemas(context, 'response', here, media.schema, now.schema)
    }
  }
}

/** Reports credentials that were sufficient and no longer are. An operation without a list of credentials admits everyone. */
function compareCredentials({ before, after, found }: Context, at: string, was: Json, is: Json) {
  const waysOf = (operation: Json, document: Json): string[][] => {
    const ways = operation.security ?? document.security
    return Array.isArray(ways) && ways.length > 0 ? ways.map((way) => Object.keys(way)) : [[]]
  }
  const now = waysOf(is, after)
  for (const way of waysOf(was, before))
    if (!now.some((needed) => needed.every((scheme) => way.includes(scheme))))
      found.push(`${at}: ${way.join(' and ') || 'no credential'} is no longer sufficient`)
}

function compareParameters(context: Context, at: string, before: Json, after: Json) {
  const keyOf = (parameter: Json) => `${parameter.in} parameter '${parameter.name}'`
  const listOf = (operation: Json, document: Json) =>
    new Map(
      (Array.isArray(operation.parameters) ? operation.parameters : []).map((parameter) => {
        const target = resolved(document, parameter)
        return [keyOf(target), target] as const
      }),
    )
  const [were, are] = [listOf(before, context.before), listOf(after, context.after)]
  for (const [key, parameter] of were) {
    const now = are.get(key)
    if (now === undefined) context.found.push(`${at}: ${key} is gone`)
    else {
      if (now.required === true && parameter.required !== true)
        context.found.push(`${at}: ${key} has become required`)
      compareSchemas(context, 'request', `${at}: ${key}`, parameter.schema, now.schema)
    }
  }
  for (const [key, parameter] of are)
    if (!were.has(key) && parameter.required === true) context.found.push(`${at}: ${key} is new and required`)
}

function compareBodies(context: Context, at: string, before: Json, after: Json) {
  const was = isJson(before.requestBody) ? resolved(context.before, before.requestBody) : undefined
  const is = isJson(after.requestBody) ? resolved(context.after, after.requestBody) : undefined
  if (is?.required === true && was?.required !== true)
    context.found.push(`${at}: the body ${was ? 'has become required' : 'is new and required'}`)
  for (const [type, media] of entriesOf(was?.content)) {
    const now = fieldOf(is?.content, type)
    if (now === undefined) context.found.push(`${at}: a body of ${type} is no longer accepted`)
    else compareSchemas(context, 'request', `${at}: body`, media.schema, now.schema)
  }
}

type Direction = 'request' | 'response'

/**
 * Reports incompatible schemas. A request schema may only widen, so that old requests stay valid. A response schema may only
 * narrow, except for new fields and enum values: clients ignore unknown ones.
 */
function compareSchemas(
  context: Context,
  direction: Direction,
  at: string,
  before: unknown,
  after: unknown,
  seen = new Set<string>(),
) {
  // A recursive schema is compared once.
  const references = `${referenceOf(before)} ${referenceOf(after)}`
  if (references !== ' ') {
    if (seen.has(references)) return
    seen = new Set([...seen, references])
  }
  const was = schemaOf(context.before, before)
  const is = schemaOf(context.after, after)
  const report = (what: string) => context.found.push(`${at} ${what}`)
  const inner = (name: string, a: unknown, b: unknown) =>
    compareSchemas(context, direction, `${at}${name}`, a, b, seen)

  if (direction === 'request' && was.nullable === true && is.nullable !== true)
    report('may no longer be null')
  if (direction === 'response' && was.nullable !== true && is.nullable === true) report('may now be null')
  const [old, now] = [alternativesOf(was), alternativesOf(is)]
  const field = fieldOf(is, 'discriminator')?.propertyName
  if (!old && now && typeof field === 'string') {
    compareByValue(context, { direction, at, seen, field }, was, now)
    return
  }
  if (old || now) {
    compareAlternatives(context, { direction, at, seen }, old ?? [was], now ?? [is])
    // The fields of a single object have been compared with each alternative.
    if (!old || !now) return
  } else if (was.type !== is.type) {
    const isWidened = was.type === 'integer' && is.type === 'number' && direction === 'request'
    const isNarrowed = was.type === 'number' && is.type === 'integer' && direction === 'response'
    const isOpened = is.type === undefined && direction === 'request'
    const isClosed = was.type === undefined && direction === 'response'
    if (!isWidened && !isNarrowed && !isOpened && !isClosed) {
      report(`was ${was.type ?? 'anything'} and is ${is.type ?? 'anything'}`)
      return
    }
  }
  compareValues(direction, report, was, is)
  if (direction === 'request') compareLimits(report, was, is)
  if (isJson(was.items) && isJson(is.items)) inner('[]', was.items, is.items)
  compareFields(direction, report, inner, was, is)
}

function compareAlternatives(
  context: Context,
  { direction, at, seen }: { direction: Direction; at: string; seen: Set<string> },
  old: unknown[],
  now: unknown[],
) {
  const problemsOf = (a: unknown, b: unknown) => {
    const trial = { ...context, found: [] as string[] }
    compareSchemas(trial, direction, at, a, b, seen)
    return trial.found
  }
  // Some alternative must accept each old request. Each new response must match an old alternative.
  if (direction === 'request') {
    for (const [index, a] of old.entries())
      if (!now.some((b) => problemsOf(a, b).length === 0))
        context.found.push(`${at} no longer accepts its alternative '${nameOf(a) ?? index + 1}' as it was`)
  } else if (!now.every((b) => old.some((a) => problemsOf(a, b).length === 0)))
    context.found.push(`${at} has a new alternative`)
}

const nameOf = (schema: unknown) => (isJson(schema) ? schema.title : undefined)

/**
 * Compares an object that was split into one object per value of `field`. Each new object is compared with the old object of
 * that value.
 */
function compareByValue(
  context: Context,
  { direction, at, seen, field }: { direction: Direction; at: string; seen: Set<string>; field: string },
  was: Json,
  now: unknown[],
) {
  const alternatives = now.map((one) => schemaOf(context.after, one))
  const constantOf = (schema: Json) => {
    const { enum: values } = schemaOf(context.after, fieldOf(schema.properties, field))
    return Array.isArray(values) ? values[0] : undefined
  }
  const { enum: oldValues } = schemaOf(context.before, fieldOf(was.properties, field))
  const values = alternatives.map(constantOf)
  if (direction === 'request')
    for (const value of Array.isArray(oldValues) ? oldValues : [])
      if (!values.includes(value)) context.found.push(`${at}.${field} no longer accepts '${value}'`)
  const required = new Set(Array.isArray(was.required) ? was.required : [])
  for (const [index, alternative] of alternatives.entries()) {
    // An optional field of a response may remain in the objects of some values only.
    const isElsewhere = (name: string) =>
      direction === 'response' &&
      !required.has(name) &&
      fieldOf(alternative.properties, name) === undefined &&
      alternatives.some(({ properties }) => fieldOf(properties, name) !== undefined)
    const properties = entriesOf(was.properties)
      .filter(([name]) => !isElsewhere(name))
      .map(([name, schema]) => [name, name === field ? { ...schema, enum: [values[index]] } : schema])
    const narrowed = { ...was, properties: Object.fromEntries(properties) }
    compareSchemas(context, direction, `${at}[${field}=${values[index]}]`, narrowed, alternative, seen)
  }
}

function compareValues(direction: Direction, report: (what: string) => void, was: Json, is: Json) {
  if (direction === 'response') {
    if (Array.isArray(was.enum) && !Array.isArray(is.enum)) report('is no longer an enum')
    return
  }
  if (!Array.isArray(is.enum)) return
  const accepted = new Set(is.enum)
  if (!Array.isArray(was.enum)) report(`now accepts only ${is.enum.join(', ')}`)
  else for (const value of was.enum) if (!accepted.has(value)) report(`no longer accepts '${value}'`)
}

const LOWER = ['minimum', 'minLength', 'minItems', 'minProperties']
const UPPER = ['maximum', 'maxLength', 'maxItems', 'maxProperties']

function compareLimits(report: (what: string) => void, was: Json, is: Json) {
  const numberOf = (schema: Json, name: string, open: number) =>
    typeof schema[name] === 'number' ? (schema[name] as number) : open
  for (const name of LOWER)
    if (numberOf(is, name, -Infinity) > numberOf(was, name, -Infinity))
      report(`has a higher ${name}: ${is[name]}, not ${was[name] ?? 'none'}`)
  for (const name of UPPER)
    if (numberOf(is, name, Infinity) < numberOf(was, name, Infinity))
      report(`has a lower ${name}: ${is[name]}, not ${was[name] ?? 'none'}`)
  if (was.default !== undefined && !Bun.deepEquals(is.default, was.default))
    report(`has the default ${JSON.stringify(is.default) ?? 'none'}, not ${JSON.stringify(was.default)}`)
  for (const name of ['pattern', 'format', 'uniqueItems'])
    if (is[name] !== undefined && is[name] !== false && is[name] !== was[name])
      report(`has another ${name}: ${is[name]}, not ${was[name] ?? 'none'}`)
}

function compareFields(
  direction: Direction,
  report: (what: string) => void,
  inner: (name: string, before: unknown, after: unknown) => void,
  was: Json,
  is: Json,
) {
  const required = (schema: Json) =>
    new Set(Array.isArray(schema.required) ? schema.required.map(String) : [])
  const [needed, needs] = [required(was), required(is)]
  for (const [name, field] of entriesOf(was.properties)) {
    const now = fieldOf(is.properties, name)
    if (now === undefined) report(`lost its field '${name}'`)
    else inner(`.${name}`, field, now)
  }
  if (direction === 'request')
    for (const name of needs) {
      if (needed.has(name)) continue
      report(
        fieldOf(was.properties, name) === undefined
          ? `has the new required field '${name}'`
          : `now requires its field '${name}'`,
      )
    }
  else
    for (const name of needed)
      if (!needs.has(name) && fieldOf(is.properties, name) !== undefined)
        report(`may omit its field '${name}'`)
  if (direction === 'request' && is.additionalProperties === false && was.additionalProperties !== false)
    report('no longer accepts unknown fields')
  if (isJson(was.additionalProperties) && isJson(is.additionalProperties))
    inner('.*', was.additionalProperties, is.additionalProperties)
}
