// The API's document shows a stricter schema where the schema that checks a request is looser than clients should send.
import type { TSchema } from '@sinclair/typebox'

/** `checked` decides what is accepted; the document shows `documented`, which accepts nothing that `checked` refuses. */
export const documentedAs = <Checked extends TSchema>(checked: Checked, documented: TSchema): Checked => ({
  ...checked,
  documented,
})

/** Schemas of a route that the framework does not check, by what they describe. */
export interface Described {
  params?: TSchema
  query?: TSchema
  body?: TSchema
  /** A multipart form: it is read as a stream. */
  form?: TSchema
  /** Events of `text/event-stream`, which the route answers beside JSON. */
  events?: TSchema
}

export const DESCRIBED = 'x-described'

/** Part of a route's `detail`; the document shows these schemas as if the route checked them. */
export const described = (schemas: Described) => ({ [DESCRIBED]: schemas })
