import type { AnyElysia } from 'elysia'
import { bodyBytesMax } from './body.ts'
import type { Access, BodyKind, Route } from './route-table.ts'

/** What a plugin's routes declared, as the route table wants it. */
export const routesOf = (plugin: AnyElysia, access: Access): Route[] =>
  plugin.routes.map(({ method, path, hooks, handler }) => {
    const declared: Declared = hooks
    const route = { method, pattern: path, body: bodyKind(declared) }
    return {
      ...route,
      access,
      bodyBytesMax: bodyBytesMax(route),
      answersOwnErrors: (declared.error?.length ?? 0) > 0,
      constant: typeof handler === 'function' ? null : JSON.stringify(handler),
    }
  })

/** The part of Elysia's hooks that is read here; Elysia itself types them loosely. */
interface Declared {
  body?: unknown
  error?: readonly unknown[]
}

/** A route without a body schema reads its body itself, as a stream, or not at all. */
const bodyKind = ({ body }: Declared): BodyKind => (body === undefined ? 'none' : 'json')
