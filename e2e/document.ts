// The API's own document, read: its operations, and what their answers have to look like.
import { Ajv } from 'ajv'

export type Json = Record<string, unknown>
export interface Schema {
  type?: string
  enum?: unknown[]
  nullable?: boolean
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
  example?: unknown
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

/** What is wrong with an answer's body, or an empty text; null where the document says nothing of it. */
export type ValidatorOf = (operation: Operation, status: string) => ((body: unknown) => string) | null

export function operationsOf(document: { paths: Record<string, Record<string, Json>> }): Operation[] {
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

export function validatorsOf(document: Json): ValidatorOf {
  const ajv = newAjv()
  const made = new Map<string, ReturnType<ValidatorOf>>()
  const components = jsonSchemaOf(document.components)
  const make = (operation: Operation, status: string): ReturnType<ValidatorOf> => {
    const content = operation.responses[status]?.content
    const schema = content?.['application/json']?.schema
    if (content === undefined) return (body) => (body === '' ? '' : 'there is a body')
    if (schema === undefined) return null
    const validate = ajv.compile({ ...(jsonSchemaOf(schema) as Json), components })
    return (body) => (validate(body) ? '' : ajv.errorsText(validate.errors))
  }
  return (operation, status) => {
    const key = `${operation.method} ${operation.path} ${status}`
    if (!made.has(key)) made.set(key, make(operation, status))
    return made.get(key) ?? null
  }
}

/** OpenAPI 3.0 says null by `nullable`, which a validator of JSON schemas takes for a note. */
export function jsonSchemaOf(schema: unknown): object {
  if (Array.isArray(schema)) return schema.map((inner) => (isObject(inner) ? jsonSchemaOf(inner) : inner))
  if (!isObject(schema)) return {}
  const { nullable, example: _, ...rest } = schema
  const inner = Object.fromEntries(
    Object.entries(rest).map(([key, value]) => [
      key,
      typeof value === 'object' && value !== null && key !== 'enum' && key !== 'required'
        ? jsonSchemaOf(value)
        : value,
    ]),
  )
  return nullable === true ? { anyOf: [inner, { type: 'null' }] } : inner
}

const isObject = (value: unknown): value is Json =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
