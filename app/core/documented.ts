// The schema that checks a request may be looser than clients should send. The OpenAPI document then shows a stricter schema.
import type { TSchema } from '@sinclair/typebox'

/** Requests are checked with `checked`. The document shows `documented`, which accepts nothing that `checked` refuses. */
export const documentedAs = <Checked extends TSchema>(checked: Checked, documented: TSchema): Checked => ({
  ...checked,
  documented,
})

/** Schemas of a route that appear in the document but are not checked by the framework. */
export interface Described {
  params?: TSchema
  query?: TSchema
  body?: TSchema
  /** A multipart form, which is read as a stream. */
  form?: TSchema
  /** Events of `text/event-stream`, which the route offers beside JSON. */
  events?: TSchema
}

export const DESCRIBED = 'x-described'

/** Part of a route's `detail`; the document shows these schemas as if the route checked them. */
export const described = (schemas: Described) => ({ [DESCRIBED]: schemas })
