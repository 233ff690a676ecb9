import type { AnyElysia } from 'elysia'
import type { Access, BodyKind, Route } from '../core/route-table.ts'
import { bodyFieldsOf } from '../core/unknown-fields.ts'
import { bodyBytesMax } from './body.ts'

/** Converts the declarations of a plugin's routes to entries of the route table. */
export const routesOf = (plugin: AnyElysia, access: Access): Route[] => {
  /** Response schemas by path, for all methods: a client may send back the fields that it has read. */
  const responses = new Map<string, unknown[]>()
  for (const { path, hooks } of plugin.routes)
    responses.set(path, [...(responses.get(path) ?? []), ...responsesOf(hooks)])
  return plugin.routes.map(({ method, path, hooks }) => {
    const declared: Declared = hooks
    const route = { method, pattern: path, body: bodyKind(declared) }
    return {
      ...route,
      access,
      bodyBytesMax: bodyBytesMax(route),
      // Internal bodies are not checked: a newer part may send fields that an older part does not know.
      fields: access === 'identity' ? bodyFieldsOf(declared.body, responses.get(path)) : null,
      answersOwnErrors: (declared.error?.length ?? 0) > 0,
    }
  })
}

/** The part of Elysia's hooks that this file reads; Elysia itself types them loosely. */
interface Declared {
  body?: unknown
  error?: readonly unknown[]
  /** Schemas by status. */
  response?: Readonly<Record<string, unknown>>
}

const responsesOf = ({ response = {} }: Declared): unknown[] =>
  Object.entries(response).flatMap(([status, schema]) => (status.startsWith('2') ? [schema] : []))

/** A route without a body schema reads its body as a stream, or not at all. */
const bodyKind = ({ body }: Declared): BodyKind => (body === undefined ? 'none' : 'json')
