import { type SchemaOptions, type TLiteral, type TSchema, type TUnion, Type as t } from '@sinclair/typebox'
import { ERROR_CODES, TYPE_OF } from './errors.ts'

// Names are parsed at the edge, and later code does not check them again. Rules: specification, Naming rules.

export const NamespaceName = t.String({
  pattern: '^[a-z][a-z0-9-]{2,62}$',
  description: 'Lowercase letters, digits and hyphens; starts with a letter; 3-63 characters',
  examples: ['default'],
})

export const PipelineName = t.String({
  pattern: '^[a-z0-9][a-z0-9_-]{0,127}$',
  description: 'Lowercase letters, digits, hyphens and underscores',
  examples: ['flights'],
})
export const ZoneName = t.String({
  pattern: '^[a-z0-9][a-z0-9-]{0,127}$',
  description: 'Lowercase letters, digits and hyphens',
  examples: ['flights'],
})
export const TestName = t.String({
  pattern: '^[a-z0-9][a-z0-9-]{0,127}$',
  description: 'Lowercase letters, digits and hyphens',
  examples: ['no-null-keys'],
})
export const Layer = t.Union([t.Literal('bronze'), t.Literal('silver'), t.Literal('gold')], {
  title: 'Layer',
  description: 'Data layer',
  examples: ['silver'],
})
export type Layer = typeof Layer.static
export const Uuid = t.String({
  pattern: '^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$',
  description: 'UUID',
  examples: ['0198f0c2-7a4e-7c1b-9d0a-5b1f6c2e8d43'],
})
/** One text of a fixed list. */
export const literals = <const Texts extends readonly string[]>(texts: Texts, options: SchemaOptions = {}) =>
  t.Union(
    texts.map((text) => t.Literal(text)),
    options,
  ) as TUnion<{ -readonly [At in keyof Texts]: TLiteral<Texts[At]> }>

export const Instant = t.String({ format: 'date-time', description: 'ISO 8601, UTC' })

export const nullable = <S extends TSchema>(schema: S, options: SchemaOptions = {}) =>
  t.Union([schema, t.Null()], options)

/** Values that depend on the data, so their fields are unknown. */
export const AnyObject = t.Record(t.String(), t.Unknown(), {
  title: 'AnyObject',
  description: 'An object with any fields',
})

/** `{ns}/{layer}/{name}` in a path. */
export const PipelinePath = t.Object({ ns: NamespaceName, layer: Layer, name: PipelineName })
export type PipelinePath = typeof PipelinePath.static

export const ErrorBody = t.Object(
  {
    error: t.Object(
      {
        code: literals(ERROR_CODES, { title: 'ErrorCode' }),
        type: literals([...new Set(Object.values(TYPE_OF))], {
          title: 'ErrorType',
          description: 'Determined by the HTTP status',
        }),
        message: t.String({
          description: 'The reason, with the name of the field or the resource',
          examples: ['pipeline default.silver.flights not found'],
        }),
      },
      { title: 'ErrorDetail' },
    ),
  },
  { title: 'Error', description: 'The error envelope' },
)
