import type { ValidationError } from 'elysia'
import { AppError, invalid } from '../core/errors.ts'

const MESSAGE_MAX = 300
const FIELD_MAX = 100

interface Alternative {
  const?: unknown
  type?: string
  maxLength?: number
}

interface Problem {
  path?: string
  message?: string
  value?: unknown
  schema?: {
    type?: string
    pattern?: string
    format?: string
    description?: string
    maxLength?: number
    anyOf?: readonly Alternative[]
  }
}

/** The error for a request that its route's schema refuses: 400 with the field, or 404 when the address itself cannot exist. */
export function refusalOf(error: ValidationError): AppError {
  const problem: Problem = error.valueError ?? {}
  const field = fieldOf(problem.path ?? '') || (error.type === 'body' ? 'body' : error.type)
  const why = whyOf(problem).slice(0, MESSAGE_MAX)
  return error.type === 'params'
    ? new AppError(404, 'NOT_FOUND', `no such ${field}: ${why}`)
    : new AppError(400, 'INVALID_ARGUMENT', `${field}: ${why}`)
}

/** The error for a value that only its own schema refuses, not the schema of the route: 400 with the field under `root`. */
export function refusalOfValue(problem: Problem, root: string): AppError {
  const field = [root, fieldOf(problem.path ?? '')].filter(Boolean).join('.')
  return invalid(field, whyOf(problem).slice(0, MESSAGE_MAX))
}

/** A JSON pointer in dotted form: `/columns/0/name` becomes `columns.0.name`. */
const fieldOf = (pointer: string) =>
  pointer.slice(1).replaceAll('/', '.').replaceAll('~1', '/').replaceAll('~0', '~').slice(0, FIELD_MAX)

function whyOf({ value, schema, message }: Problem): string {
  if (value === undefined) return 'is required'
  const lengthMax = schema?.maxLength ?? schema?.anyOf?.find(({ type }) => type === 'string')?.maxLength
  if (typeof value === 'string' && lengthMax !== undefined && value.length > lengthMax)
    return `its length must be at most ${lengthMax}`
  if (schema?.anyOf) return `must be ${alternativesOf(schema.anyOf)}`
  if (schema?.format === 'binary') return 'must be a file'
  if (typeof value === 'string' && schema?.pattern)
    return `must match ${schema.pattern}${schema.description ? ` (${schema.description})` : ''}`
  return sentenceOf(message ?? '')
}

/**
 * Rewrites messages of TypeBox: `Expected integer to be greater or equal to 1`, `Expected string length less or equal to 10`.
 */
function sentenceOf(message: string) {
  if (message === 'Unexpected property') return 'is not a known field'
  if (message === 'Expected array elements to be unique') return 'must not contain the same item twice'
  const bound = /^Expected (?:integer|number) to be (.+)$/.exec(message)?.[1]
  if (bound) return `must be ${inPlainWords(bound)}`
  const length = /^Expected (?:string|array) length (?:to be )?(.+)$/.exec(message)?.[1]
  if (length) return `its length must be ${inPlainWords(length)}`
  const kind = /^Expected (.+)$/.exec(message)?.[1]
  return kind ? `must be ${/^[aeiou]/.test(kind) ? 'an' : 'a'} ${kind}` : 'is not valid'
}

/** Replaces `greater or equal to` with `at least`, and `less or equal to` with `at most`. */
const inPlainWords = (bound: string) =>
  bound.replace(/^greater or equal to /, 'at least ').replace(/^less or equal to /, 'at most ')

function alternativesOf(alternatives: readonly Alternative[]) {
  const names = alternatives.map((alternative) =>
    alternative.const === undefined ? (alternative.type ?? 'a value') : String(alternative.const),
  )
  return names.every((_, index) => alternatives[index]?.const !== undefined)
    ? `one of ${names.join(', ')}`
    : names.join(' or ')
}
