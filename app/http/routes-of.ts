import type { AnyElysia } from 'elysia'
import type { Access, BodyKind, Route } from '../core/route-table.ts'
import { bodyFieldsOf } from '../core/unknown-fields.ts'
import { bodyBytesMax } from './body.ts'

/** What a plugin's routes declared, as the route table wants it. */
export const routesOf = (plugin: AnyElysia, access: Access): Route[] => {
  /** Answer schemas by path, for all methods: a client may write back the fields it has read. */
  const answers = new Map<string, unknown[]>()
  for (const { path, hooks } of plugin.routes)
    answers.set(path, [...(answers.get(path) ?? []), ...answersOf(hooks)])
  return plugin.routes.map(({ method, path, hooks }) => {
    const declared: Declared = hooks
    const route = { method, pattern: path, body: bodyKind(declared) }
    return {
      ...route,
      access,
      bodyBytesMax: bodyBytesMax(route),
      // Between our own parts a newer one may say more than an older one knows.
      fields: access === 'identity' ? bodyFieldsOf(declared.body, answers.get(path)) : null,
      answersOwnErrors: (declared.error?.length ?? 0) > 0,
    }
  })
}

/** The part of Elysia's hooks that is read here; Elysia itself types them loosely. */
interface Declared {
  body?: unknown
  error?: readonly unknown[]
  /** By status. */
  response?: Readonly<Record<string, unknown>>
}

const answersOf = ({ response = {} }: Declared): unknown[] =>
  Object.entries(response).flatMap(([status, schema]) => (status.startsWith('2') ? [schema] : []))

/** A route without a body schema reads its body itself, as a stream, or not at all. */
const bodyKind = ({ body }: Declared): BodyKind => (body === undefined ? 'none' : 'json')
