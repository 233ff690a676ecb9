// Schemas of server-sent events for the OpenAPI document.
import { type TSchema, Type as t } from '@sinclair/typebox'
import { documentedAs } from '../core/documented.ts'

/** Data of an event that ends a stream: the resource is gone or unreadable. */
export const StreamError = t.Object({ message: t.String() }, { title: 'StreamError' })

/**
 * The data of each kind of event, by the name of the event. On the wire, `data` is one line of JSON. The document shows the
 * parsed data, because OpenAPI 3.1 has no schema for the lines of a stream.
 */
export const eventsOf = (data: Record<string, TSchema>) =>
  t.Union([...new Set(Object.values(data))], {
    description: `The data of one event, as one line of JSON: ${Object.entries(data)
      .map(([event, { title }]) => `\`${event}\` carries ${title}`)
      .join(', ')}`,
  })

/** A response that is always a stream of these events. */
export const eventsText = (events: TSchema) =>
  documentedAs(t.String({ contentMediaType: 'text/event-stream' }), events)
