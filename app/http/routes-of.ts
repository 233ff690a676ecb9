import type { AnyElysia } from 'elysia'
import { DESCRIBED, type Described } from '../core/documented.ts'
import type { Access, BodyKind, Route } from '../wire/route-table.ts'
import { bodyFieldsOf, NO_FIELDS } from '../wire/unknown-fields.ts'
import { bodyBytesMax } from './body.ts'

/**
 * The names that are refused when a route does not know them. `none`: a specification of others, pages for browsers, and
 * internal routes, where a newer part may send names that an older part does not know.
 */
type CheckedNames = 'fields and parameters' | 'parameters' | 'none'

/** Converts the declarations of a plugin's routes to entries of the route table. */
export const routesOf = (plugin: AnyElysia, access: Access, checked: CheckedNames = 'none'): Route[] => {
  const answers = new Map<string, unknown[]>()
  for (const { method, path, hooks } of plugin.routes)
    if (method === 'GET') answers.set(path, answersOf(hooks))
  return plugin.routes.map(({ method, path, hooks }) => {
    const declared: Declared = hooks
    const { query, body, form } = namesIn(declared)
    const hasFields = checked === 'fields and parameters' && method !== 'GET' && form === undefined
    const route = { method, pattern: path, body: bodyKind(declared, hasFields) }
    const resource = method === 'PUT' ? resourceOf(path, answers.keys()) : null
    return {
      ...route,
      access,
      bodyBytesMax: bodyBytesMax(route),
      parameters: checked === 'none' ? null : new Set(Object.keys(query?.properties ?? {})),
      fields: hasFields ? fieldsOf(body, resource === null ? [] : answers.get(resource)) : null,
      resource,
      answersOwnErrors: (declared.error?.length ?? 0) > 0,
    }
  })
}

/** The part of Elysia's hooks that this file reads; Elysia itself types them loosely. */
interface Declared {
  body?: unknown
  query?: Described['query']
  detail?: { [DESCRIBED]?: Described }
  error?: readonly unknown[]
  /** Schemas by status. */
  response?: Readonly<Record<string, unknown>>
}

/** The schemas of a route, including those that only the document shows. */
const namesIn = ({ query, body, detail }: Declared) => ({ query, body, ...detail?.[DESCRIBED] })

const fieldsOf = (body: unknown, answers: readonly unknown[] = []) =>
  body === undefined ? NO_FIELDS : bodyFieldsOf(body, answers)

const answersOf = ({ response = {} }: Declared): unknown[] =>
  Object.entries(response).flatMap(([status, schema]) => (status.startsWith('2') ? [schema] : []))

/** The address of the resource that a PUT changes: its own address or the one above, such as `/tables/x` for `/tables/x/metadata`. */
function resourceOf(pattern: string, readable: Iterable<string>): string | null {
  const addresses = new Set(readable)
  const above = pattern.slice(0, pattern.lastIndexOf('/'))
  return [pattern, above].find((address) => addresses.has(address)) ?? null
}

/** A route without a body schema reads its body as a stream, or has no fields. */
function bodyKind({ body }: Declared, hasFields: boolean): BodyKind {
  if (body !== undefined) return 'json'
  return hasFields ? 'unused' : 'none'
}
