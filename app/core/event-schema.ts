// How the document shows server-sent events.
import { type TSchema, Type as t } from '@sinclair/typebox'
import { documentedAs } from './documented.ts'

/** Data of events that end a stream: the resource is gone, or could not be read. */
export const StreamError = t.Object({ message: t.String() }, { title: 'StreamError' })

/**
 * The data of each kind of event, by its name. On the wire `data` is one line of JSON; the document shows it parsed, because
 * OpenAPI 3.1 has no schema for the lines of a stream.
 */
export const eventsOf = (data: Record<string, TSchema>) =>
  t.Union([...new Set(Object.values(data))], {
    description: `Data of one event, as JSON in one line: ${Object.entries(data)
      .map(([event, { title }]) => `\`${event}\` carries ${title}`)
      .join(', ')}`,
  })

/** An answer that is always a stream of these events. */
export const eventsText = (events: TSchema) =>
  documentedAs(t.String({ contentMediaType: 'text/event-stream' }), events)
