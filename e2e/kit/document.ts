// Reads the service's OpenAPI document: its operations and the declared form of their answers.
import { Ajv } from 'ajv'

export type Json = Record<string, unknown>
export interface Schema {
  type?: string | string[]
  enum?: unknown[]
  const?: unknown
  required?: string[]
  properties?: Record<string, Schema>
  additionalProperties?: Schema | boolean
  items?: Schema
  anyOf?: Schema[]
  oneOf?: Schema[]
  minimum?: number
  maximum?: number
  minLength?: number
  maxLength?: number
  pattern?: string
  format?: string
  minItems?: number
  maxItems?: number
  uniqueItems?: boolean
  examples?: unknown[]
  $ref?: string
}
export interface Parameter {
  name: string
  in: 'path' | 'query' | 'header'
  required?: boolean
  schema: Schema
  example?: unknown
}
export interface Operation {
  method: string
  path: string
  parameters: Parameter[]
  body: { type: string; schema: Schema; required: boolean } | null
  responses: Record<string, { content?: Record<string, { schema: Schema }> }>
}

/**
 * Validates the body of an answer: returns the error text, which is empty for a valid body. Null if the document does not
 * describe the body.
 */
export type ValidatorOf = (operation: Operation, status: string) => ((body: unknown) => string) | null

/** The operations of the document, with each `$ref` replaced by the schema that it names. */
export function operationsOf(given: { paths: Record<string, Record<string, Json>> }): Operation[] {
  const document = withoutReferences(given, given) as typeof given
  return Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]): Operation => {
      const { content, required } = (operation.requestBody ?? {}) as {
        content?: Record<string, { schema: Schema }>
        required?: boolean
      }
      const [body] = Object.entries(content ?? {}).map(([type, media]) => ({
        type,
        required: required ?? false,
        ...media,
      }))
      return {
        method: method.toUpperCase(),
        path,
        parameters: (operation.parameters ?? []) as Parameter[],
        body: body ?? null,
        responses: operation.responses as Operation['responses'],
      }
    }),
  )
}

export function newAjv() {
  return new Ajv({ strict: false, allErrors: false, validateFormats: false, logger: false })
}

export function validatorsOf(): ValidatorOf {
  const ajv = newAjv()
  const validators = new Map<string, ReturnType<ValidatorOf>>()
  const make = (operation: Operation, status: string): ReturnType<ValidatorOf> => {
    const content = operation.responses[status]?.content
    const schema = content?.['application/json']?.schema
    if (content === undefined) return (body) => (body === '' ? '' : 'there is a body')
    if (schema === undefined) return null
    const validate = ajv.compile(schema)
    return (body) => (validate(body) ? '' : ajv.errorsText(validate.errors))
  }
  return (operation, status) => {
    const key = `${operation.method} ${operation.path} ${status}`
    if (!validators.has(key)) validators.set(key, make(operation, status))
    return validators.get(key) ?? null
  }
}

/** Replaces every reference. This ends because no schema of the document refers to itself. */
function withoutReferences(document: Json, value: unknown): unknown {
  if (Array.isArray(value)) return value.map((one) => withoutReferences(document, one))
  if (!isObject(value)) return value
  if (typeof value.$ref === 'string') return withoutReferences(document, targetOf(document, value.$ref))
  return Object.fromEntries(
    // The mapping of a discriminator names components and is not a schema.
    Object.entries(value).flatMap(([key, inner]) =>
      key === 'discriminator' ? [] : [[key, withoutReferences(document, inner)]],
    ),
  )
}

function targetOf(document: Json, reference: string): unknown {
  const target = reference
    .slice('#/'.length)
    .split('/')
    .reduce<unknown>((at, key) => (isObject(at) ? at[key] : undefined), document)
  if (target === undefined) throw new Error(`unresolved reference ${reference}`)
  return target
}

const isObject = (value: unknown): value is Json =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
