import { Type as t } from '@sinclair/typebox'
import { limits } from '../core/limits.ts'
import { Instant, NamespaceName, nullable, Uuid } from '../core/names.ts'

const Description = t.String({
  description: `At most ${limits.textCharacters} characters`,
  examples: ['Flights of 2001'],
})

export const Namespace = t.Object(
  {
    id: Uuid,
    name: NamespaceName,
    owner: nullable(t.String()),
    description: t.String(),
    created_at: Instant,
  },
  { title: 'Namespace' },
)
export type Namespace = typeof Namespace.static

export const NamespaceList = t.Object(
  { namespaces: t.Array(Namespace), total: t.Integer() },
  { title: 'NamespaceList' },
)

export const NamespaceParams = t.Object({ name: NamespaceName })

export const CreateNamespace = t.Object(
  {
    name: { ...NamespaceName, examples: ['air-traffic'] },
    description: t.Optional(Description),
  },
  { title: 'CreateNamespace' },
)
export type CreateNamespace = typeof CreateNamespace.static

export const UpdateNamespace = t.Object({ description: Description }, { title: 'UpdateNamespace' })
export type UpdateNamespace = typeof UpdateNamespace.static
