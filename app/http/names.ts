import { type SchemaOptions, type TSchema, Type as t } from '@sinclair/typebox'

// Names are parsed here, at the edge; past it nobody checks them again. Rules: specification, Naming rules.

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
  description: 'Data layer',
  examples: ['silver'],
})
export type Layer = typeof Layer.static
export const Uuid = t.String({
  pattern: '^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$',
  description: 'UUID',
  examples: ['0198f0c2-7a4e-7c1b-9d0a-5b1f6c2e8d43'],
})
export const Instant = t.String({ format: 'date-time', description: 'ISO 8601, UTC' })

export const nullable = <S extends TSchema>(schema: S, options: SchemaOptions = {}) =>
  t.Union([schema, t.Null()], options)

/** `{ns}/{layer}/{name}` in a path. */
export const PipelinePath = t.Object({ ns: NamespaceName, layer: Layer, name: PipelineName })
export type PipelinePath = typeof PipelinePath.static

export const ErrorBody = t.Object(
  {
    error: t.Object({
      code: t.String({ examples: ['INVALID_ARGUMENT'] }),
      type: t.String({ examples: ['VALIDATION'] }),
      message: t.String(),
    }),
  },
  { title: 'Error', description: 'The error envelope' },
)
